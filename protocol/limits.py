"""Every number of the wire protocol, with its unit. Changing one changes the protocol version."""

MAX_MESSAGE_BYTES = 64 * 1024  # a signed rollout group: signature and payload
SIGNATURE_BYTES = 64  # Ed25519, in front of the payload
PEER_ID_CHARS = 52  # base58btc of an Ed25519 identity multihash always has this length
MAX_NAME_CHARS = 64  # environment, version, dataset, config id, swarm name
MIN_EPISODES = 2  # a group of one has no advantage
MAX_EPISODES = 64  # per group
MAX_TURNS = 32  # per episode
MAX_CALLS = 4  # per turn
MAX_ARGUMENT_CHARS = 2048  # of one call
MAX_EPISODE_CHARS = 16 * 1024  # texts and arguments together
MAX_QUESTIONS_PER_ROUND = 256  # question index is below this
MAX_SEED = 2**31 - 1  # question seeds are in [0, MAX_SEED]
MAX_ROUND = 2**31 - 1

# Announcements: what a peer states about itself, signed, carried by other peers
MAX_ANNOUNCEMENT_BYTES = 2048  # signature and payload
MAX_ADDRESSES = 4  # per announcement
MAX_ADDRESS_CHARS = 128
MAX_ANNOUNCED_GROUPS = 16  # local groups of the announced round
MAX_ANNOUNCED_HOLDINGS = 16  # external groups
HASH_BYTES = 32  # SHA-256
# First bytes of a hash: a hint where to ask, not a proof; also of digests and traces
HOLDING_BYTES = 8
MAX_SEQUENCE = 2**31 - 1
MAX_SEQUENCE_JUMP = 4096  # above the last sequence number received from that author

# Streams: one request, one reply
FRAME_HEADER_BYTES = 4  # length of the body, big-endian
SWARM_TAG_BYTES = 8
KEY_TAG_BYTES = 8  # last bytes of a public key: names a peer in a digest
MAX_EXCHANGED = 24  # announcements in one reply
MAX_DIGEST = 128  # peers named in one request
MAX_EXCHANGE_REQUEST_BYTES = 4096
MAX_EXCHANGE_REPLY_BYTES = 64 * 1024
MAX_AGE_DECISECONDS = 65535  # tenths of a second since an announcement left its author
MAX_PULLED = 8  # groups in one request
MAX_PULL_REQUEST_BYTES = 512
MAX_PULL_REPLY_BYTES = 512 * 1024
MAX_HELLO_BYTES = 256
MAX_HELLO_VERSIONS = 16
MAX_CARD_BYTES = 16 * 1024  # of a card with its signatures
MAX_CARD_REQUEST_BYTES = 30  # exactly
MAX_CARD_REPLY_BYTES = 64 * 1024
MAX_CERTIFICATES = 4  # in a chain to a member
MAX_PROOF_BYTES = 432  # of a chain of certificates
MAX_PUNCH_BYTES = 39  # one endpoint for IPv4 and one for IPv6: what public peers see of a node
