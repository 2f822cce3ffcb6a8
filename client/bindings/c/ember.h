/* libember: EmberKV's store client for C, and for whatever calls C.
 *
 * What it is: match, get and put of KV-cache segments against a cluster of store nodes. A get gives
 * exactly the bytes that were put under that identity, or a miss with its reason; every byte is
 * verified after the last copy (but see ranges and places). Losing the store costs time, never an
 * answer. Purges and times to live are the operator's: `ember purge`, `ember-store --ttl`.
 *
 * Threads: one ember_client may be used from many threads at once, and calls block until their
 * timeout at the latest. An ember_chain is for one thread at a time. ember_last_error is the
 * calling thread's.
 *
 * Memory: the caller owns every buffer, array and string it passes; when a call has returned,
 * nothing of it touches them any more. Handles are freed by their destroy function. Sizes are
 * bytes.
 *
 * Errors: functions that can fail return an ember_code; EMBER_OK is 0, and ember_last_error says
 * why it was not. A miss is not an error. No exception ever leaves this library.
 *
 * Before the first use of a struct set all of it to zero (or its _init): fields that later versions
 * add are then at their defaults.
 */
#ifndef EMBER_H_
#define EMBER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes when a program must be compiled again; the library's soname carries it. */
#define EMBER_ABI_VERSION 2

#define EMBER_API __attribute__((visibility("default")))

/* What the caller does about it. */
typedef enum ember_code {
  EMBER_OK = 0,
  EMBER_NOT_FOUND = 1,   /* recompute */
  EMBER_BUSY = 2,        /* other copy, or back off */
  EMBER_UNAVAILABLE = 3, /* other copy */
  EMBER_DEADLINE = 4,    /* as unavailable */
  EMBER_CORRUPT = 5,     /* a miss */
  EMBER_NO_SPACE = 6,    /* the node has no room that it may clear */
  EMBER_INVALID = 7,     /* the caller's fault; trying again cannot help */
  EMBER_MISMATCH = 8,    /* layout, version or identity differs */
  EMBER_CANCELLED = 9,   /* the client was shut down */
  EMBER_INTERNAL = 10    /* a bug of ours, or out of memory */
} ember_code;

/* Why a segment is not there. Later versions may add reasons: treat unknown ones as a miss. */
typedef enum ember_miss {
  EMBER_PRESENT = 0,
  EMBER_NEVER_STORED = 1,
  EMBER_EVICTED = 2,
  EMBER_LOST_NODE = 3,
  EMBER_MISS_DEADLINE = 4,
  EMBER_LAYOUT_DIFFERS = 5,
  EMBER_OTHER_SALT = 6, /* proof or tokens differ */
  EMBER_PURGED = 7,
  EMBER_MISS_CORRUPT = 8,
  EMBER_MISS_BUSY = 9,
  EMBER_EXPIRED = 10
} ember_miss;

/* EMBER_ABI_VERSION of the library: a program that loads it by itself compares it with its own. */
EMBER_API int ember_abi_version(void);
/* "0.1.0" */
EMBER_API const char* ember_version(void);
/* Why this thread's last call failed; "" if it did not. Valid until its next call. */
EMBER_API const char* ember_last_error(void);
/* "not_found" ...; "unknown" for anything else. */
EMBER_API const char* ember_code_name(ember_code code);
/* "evicted" ...; "none" for EMBER_PRESENT, "never_stored" for anything unknown. */
EMBER_API const char* ember_miss_name(ember_miss miss);

/* ---- identity: which blocks are interchangeable, and what they are called ---- */

typedef enum ember_cache_group {
  EMBER_GROUP_FULL = 1,
  EMBER_GROUP_SLIDING_WINDOW = 2,
  EMBER_GROUP_RECURRENT = 3
} ember_cache_group;

/* Everything under which two blocks are interchangeable. A difference in any field is another
 * namespace. Strings may be NULL for ""; digests are 32 bytes, NULL for zeros. */
typedef struct ember_identity {
  const char* engine;            /* "vllm", "llama.cpp" */
  const char* engine_version;    /* build or commit: an upgrade may change the bytes */
  const char* context_type;      /* engine settings that change the bytes */
  const uint8_t* weights_digest; /* SHA-256 of the content, never of a name */
  const uint8_t* tokenizer_digest;
  const uint8_t* adapter_digest; /* of the LoRA adapter */
  const char* tenant;
  const char* salt; /* secret: without it no key can be computed */
  /* The shape of a block's bytes. */
  uint32_t tokens_per_block;
  uint32_t layers;
  uint32_t kv_heads;    /* per layer, all ranks together */
  uint32_t head_size;   /* elements */
  const char* key_type; /* element type as the engine names it: "f16" */
  const char* value_type;
  const char* order; /* of the bytes as the engine gives them */
  int32_t group;     /* ember_cache_group; 0 = EMBER_GROUP_FULL */
  uint32_t rank;
  uint32_t rank_count; /* 0 = 1 */
} ember_identity;

/* One segment: a run of blocks moved as one payload, named by its whole prefix. A plain value; made
 * by a chain. */
typedef struct ember_segment {
  uint8_t ns[16];
  uint8_t hash[16];      /* of its last block */
  uint8_t placement[16]; /* decides the owners */
  uint8_t proof[32];     /* SHA-256 of the prefix */
  uint32_t first_block;
  uint32_t block_count;
} ember_segment;

/* A prompt's tokens as segments. */
typedef struct ember_chain ember_chain;

/* EMBER_INVALID: a field is out of its bounds. */
EMBER_API ember_code ember_chain_create(const ember_identity* identity, ember_chain** out);
/* NULL is allowed. */
EMBER_API void ember_chain_destroy(ember_chain* chain);
/* Appends the whole blocks of `tokens`, which continue the chain. *taken (may be NULL): how many
 * tokens that was; the rest, less than a block, is to be given again with what follows it. */
EMBER_API ember_code ember_chain_append(ember_chain* chain, const int32_t* tokens, size_t count,
                                        size_t* taken);
/* Whole segments so far. */
EMBER_API size_t ember_chain_segment_count(const ember_chain* chain);
/* `count` segments from number `first` on. */
EMBER_API ember_code ember_chain_segments(const ember_chain* chain, size_t first, size_t count,
                                          ember_segment* out);
/* Tokens of a whole segment. */
EMBER_API size_t ember_chain_tokens_per_segment(const ember_chain* chain);
/* The layout's digest, which get and put take. */
EMBER_API void ember_chain_layout(const ember_chain* chain, uint8_t out[16]);

/* ---- client ---- */

typedef struct ember_client ember_client;

typedef struct ember_options {
  const char* stores; /* data addresses of any nodes, "HOST:PORT,..."; required */
  const char* name;   /* for the nodes' logs, and as the writer of segments; NULL = "libember" */
  const char* tenant; /* of what is put; NULL = "" */
  const char* io;     /* "auto", "uring", "epoll"; NULL = "auto" */
  uint32_t copies;    /* at first write; 0 = 2 */
  uint32_t connect_timeout_ms; /* 0 = 500 */
  uint8_t no_shared_memory;    /* 1: never read in the memory of a node on this host */
} ember_options;

/* EMBER_INVALID: bad options. Nodes that can't be reached now are tried again by later calls. */
EMBER_API ember_code ember_client_create(const ember_options* options, ember_client** out);
/* Ends the calls in flight and waits for them. NULL is allowed. */
EMBER_API void ember_client_destroy(ember_client* client);

typedef struct ember_presence {
  int32_t miss; /* ember_miss */
  uint64_t payload_bytes;
} ember_presence;

/* Which of `count` segments are there, and how long each is. *usable: how many from the start,
 * unbroken. `out` has `count` elements. What could not be asked is a miss. */
EMBER_API ember_code ember_match(ember_client* client, const ember_segment* segments, size_t count,
                                 uint32_t timeout_ms, ember_presence* out, size_t* usable);

/* Keeps what a match found from being evicted. */
typedef struct ember_lease ember_lease;

/* As ember_match, and what is present stays for lease_ms (60 s at most), or until it is released or
 * the connection breaks. *lease: NULL when no node gave one, because nothing is there or its bounds
 * are reached. */
EMBER_API ember_code ember_match_lease(ember_client* client, const ember_segment* segments,
                                       size_t count, uint32_t timeout_ms, uint32_t lease_ms,
                                       ember_presence* out, size_t* usable, ember_lease** lease);
/* Never blocks; any thread, also after the client was destroyed. NULL is allowed. */
EMBER_API void ember_lease_release(ember_lease* lease);

typedef struct ember_get_item {
  ember_segment segment;
  const int32_t* tokens; /* of the segment's blocks: compared with what is stored */
  size_t token_count;
  void* buffer;        /* receives the payload; when it misses, it may hold anything */
  size_t buffer_bytes; /* exactly the payload's length as matched; of a range, its length */
  uint8_t is_range;    /* 1: only buffer_bytes from `offset` on, at least 1 */
  uint64_t offset;     /* of a range: its first byte in the payload */
  int32_t miss;        /* out: ember_miss; EMBER_PRESENT = arrived and verified */
} ember_get_item;

/* Loads segments into their buffers. *usable: how many arrived from the start, unbroken. `layout`:
 * 16 bytes. A range can't be compared with the payload's checksum: only its header is verified. */
EMBER_API ember_code ember_get(ember_client* client, ember_get_item* items, size_t count,
                               const uint8_t* layout, uint32_t timeout_ms, size_t* usable);

/* A segment that is read where it lies, in the memory of a node on this host. */
typedef struct ember_mapped ember_mapped;

typedef struct ember_in_place_item {
  ember_segment segment;
  const int32_t* tokens; /* as ember_get_item */
  size_t token_count;
  int32_t miss;         /* out: ember_miss; EMBER_PRESENT = found */
  ember_mapped* mapped; /* out: keeps the payload in place; NULL when it missed */
  const void* payload;  /* out: read-only */
  size_t payload_bytes; /* out */
  uint64_t deadline_ns; /* out: on CLOCK_MONOTONIC; from then on the bytes may be others */
} ember_in_place_item;

/* As ember_get, without any copy: where segments lie, kept there for lease_ms (1 to 60,000) or
 * until each is released. What is found on other hosts only is a miss. Nothing was hashed: call
 * ember_mapped_verify after the last read.
 * EMBER_UNAVAILABLE: the memory of a node that was asked is not mapped here (another host, not
 * offered, or not for this user). The items are filled in all the same; release each that is not
 * NULL, whatever is returned. */
EMBER_API ember_code ember_get_in_place(ember_client* client, ember_in_place_item* items,
                                        size_t count, const uint8_t* layout, uint32_t timeout_ms,
                                        uint32_t lease_ms, size_t* usable);
/* EMBER_CORRUPT: these are not, or no longer, the bytes that were put. */
EMBER_API ember_code ember_mapped_verify(const ember_mapped* mapped);
/* Its payload must not be read any more. Any thread, also after the client was destroyed. NULL is
 * allowed. */
EMBER_API void ember_mapped_release(ember_mapped* mapped);

/* What an acknowledgement of a put means. */
typedef enum ember_ack {
  EMBER_ACK_MEMORY = 0, /* survives the loss of all nodes that have a copy but one */
  EMBER_ACK_DISK = 1    /* survives the loss of every node's power */
} ember_ack;

typedef struct ember_put_item {
  ember_segment segment;
  const int32_t* tokens;
  size_t token_count;
  const void* payload;
  size_t payload_bytes;
  const uint64_t* layer_offsets; /* byte offset of each layer in the payload; may be NULL */
  size_t layer_count;
  uint32_t copies;      /* out: nodes that have it now, in memory at least */
  uint32_t disk_copies; /* out: of copies, on disk; a put at EMBER_ACK_MEMORY may not hear of it */
  uint8_t was_there;    /* out: every owner had it already, nothing was sent */
  int32_t code;         /* out: ember_code, why copies is below what was asked */
} ember_put_item;

/* Stores segments at their owners. An owner that is down means fewer copies of its segments, never
 * a failure of the others: see each item's copies. A node without a disk acknowledges nothing from
 * it: see disk_copies. `ack`: ember_ack. *stored (may be NULL): items with a copy. */
EMBER_API ember_code ember_put(ember_client* client, ember_put_item* items, size_t count,
                               const uint8_t* layout, int32_t ack, uint32_t timeout_ms,
                               size_t* stored);

#define EMBER_TEXT_BYTES 256

typedef struct ember_node {
  char id[EMBER_TEXT_BYTES]; /* "" while it is not known; texts are cut where they are longer */
  char address[EMBER_TEXT_BYTES]; /* of its data, "HOST:PORT" */
  uint8_t reachable;
  char last_error[EMBER_TEXT_BYTES]; /* "" when it is reachable */
} ember_node;

/* The cluster's nodes as this client sees them; it connects to those that it has not used yet, so
 * that may take as long as a connect. *count: how many there are; the first `capacity` of them are
 * in `out`. */
EMBER_API ember_code ember_nodes(ember_client* client, ember_node* out, size_t capacity,
                                 size_t* count);

#ifdef __cplusplus
}
#endif
#endif /* EMBER_H_ */
