"""File descriptors: each connection is one, and whoever opens enough of them and says nothing shuts newcomers out."""

import resource

WANTED = 8192  # p2pd, which has the limit of this process, takes 64 to 512 peers, and many more that say nothing yet


def raise_limit(wanted: int = WANTED) -> str:
    """As far as the system allows. A line for the user where that is not far enough; else ""."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    reach = wanted if hard == unlimited else min(wanted, hard)
    if soft != unlimited and soft < reach:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (reach, hard))
            soft = reach
        except (OSError, ValueError):  # macOS has a limit of its own
            pass
    if soft == unlimited or soft >= wanted:
        return ""
    return (
        f"only {soft} open files are allowed, so a flood of connections shuts newcomers out; allow {wanted} (ulimit -n)"
    )
