from tests.core.telemetry.conftest import round_report  # noqa: F401  a fixture
