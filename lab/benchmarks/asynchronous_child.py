"""The generator process of `lab.benchmarks.asynchronous`: the node's own, with the benchmark's model and questions."""

from swarm_node.node.generator import serve

if __name__ == "__main__":
    from lab.benchmarks.asynchronous import build

    serve(build)
