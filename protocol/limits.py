"""Every number of the wire protocol, with its unit. Changing one changes the protocol version."""

VERSION = 1

MAX_MESSAGE_BYTES = 64 * 1024  # a signed rollout group: signature and payload
SIGNATURE_BYTES = 64  # Ed25519, in front of the payload
PEER_ID_CHARS = 52  # base58btc of an Ed25519 identity multihash always has this length
MAX_NAME_CHARS = 64  # environment, version, dataset, config id, swarm name
MAX_COMPLETION_CHARS = 16 * 1024  # one completion
MIN_COMPLETIONS = 2  # a group of one has no advantage
MAX_COMPLETIONS = 64  # per group
MAX_QUESTIONS_PER_ROUND = 256  # question index is below this
MAX_SEED = 2**31 - 1  # question seeds are in [0, MAX_SEED]
MAX_ROUND = 2**31 - 1
