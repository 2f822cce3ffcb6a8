/* Stores a prompt's segments, finds them again, loads them while they can't be evicted, and checks.
 *
 *   ember-example-c HOST:PORT            a node's data address, say of `ember up`
 *
 * Build it with: cc example.c $(pkg-config --cflags --libs ember)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ember.h"

enum {
  TOKENS = 1000,
  MAX_SEGMENTS = 64,
  PAYLOAD_BYTES = 256 * 1024,
  TIMEOUT_MS = 5000,
  LEASE_MS = 10000
};

/* What an engine would have computed for these tokens. */
static void fill(unsigned char* bytes, size_t n, size_t segment) {
  for (size_t i = 0; i < n; ++i) bytes[i] = (unsigned char)(i * 31 + segment * 7 + 1);
}

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, ember_last_error());
  return 1;
}

static ember_identity identity(void) {
  static const uint8_t weights[32] = {1, 2, 3}; /* SHA-256 of the weights file */
  ember_identity id;
  memset(&id, 0, sizeof id);
  id.engine = "example";
  id.engine_version = "1";
  id.weights_digest = weights;
  id.salt = "a secret of this deployment";
  id.tokens_per_block = 16;
  id.layers = 4;
  id.kv_heads = 2;
  id.head_size = 64;
  id.key_type = id.value_type = "f16";
  id.order = "example.v1";
  return id;
}

static int run(ember_client* client, ember_chain* chain, const int32_t* tokens,
               unsigned char* payloads, unsigned char* loaded) {
  ember_segment segments[MAX_SEGMENTS];
  ember_presence found[MAX_SEGMENTS];
  ember_put_item put[MAX_SEGMENTS];
  ember_get_item get[MAX_SEGMENTS];
  uint8_t layout[16];
  size_t usable = 0, stored = 0;
  ember_lease* lease = NULL;
  const size_t count = ember_chain_segment_count(chain);
  const size_t per_segment = ember_chain_tokens_per_segment(chain);
  ember_chain_layout(chain, layout);
  if (ember_chain_segments(chain, 0, count, segments) != EMBER_OK) return fail("segments");

  memset(put, 0, sizeof put);
  memset(get, 0, sizeof get);
  for (size_t i = 0; i < count; ++i) {
    put[i].segment = get[i].segment = segments[i];
    put[i].tokens = get[i].tokens = tokens + i * per_segment;
    put[i].token_count = get[i].token_count = per_segment;
    fill(payloads + i * PAYLOAD_BYTES, PAYLOAD_BYTES, i);
    put[i].payload = payloads + i * PAYLOAD_BYTES;
    put[i].payload_bytes = get[i].buffer_bytes = PAYLOAD_BYTES;
    get[i].buffer = loaded + i * PAYLOAD_BYTES;
  }
  if (ember_put(client, put, count, layout, EMBER_ACK_MEMORY, TIMEOUT_MS, &stored) != EMBER_OK)
    return fail("put");
  printf("put: %zu of %zu segments stored\n", stored, count);

  if (ember_match_lease(client, segments, count, TIMEOUT_MS, LEASE_MS, found, &usable, &lease) !=
      EMBER_OK) {
    return fail("match");
  }
  printf("match: %zu of %zu usable\n", usable, count);
  for (size_t i = 0; i < count; ++i) {
    if (found[i].miss != EMBER_PRESENT) {
      printf("  segment %zu missing: %s\n", i, ember_miss_name((ember_miss)found[i].miss));
    }
  }

  const ember_code got = ember_get(client, get, usable, layout, TIMEOUT_MS, &usable);
  ember_lease_release(lease);
  if (got != EMBER_OK) return fail("get");
  printf("get: %zu of %zu loaded and verified\n", usable, count);
  if (memcmp(payloads, loaded, usable * PAYLOAD_BYTES) != 0) {
    fprintf(stderr, "get: wrong bytes\n");
    return 1;
  }
  return usable == count ? 0 : 1;
}

int main(int argc, char** argv) {
  static int32_t tokens[TOKENS];
  ember_options options;
  ember_client* client = NULL;
  ember_chain* chain = NULL;
  int result = 1;
  if (argc != 2) {
    fprintf(stderr, "usage: %s HOST:PORT\n", argv[0]);
    return 2;
  }
  for (int i = 0; i < TOKENS; ++i) tokens[i] = i * 17 % 32000;
  memset(&options, 0, sizeof options);
  options.stores = argv[1];
  options.name = "example-c";
  options.copies = 1;
  const ember_identity id = identity();
  unsigned char* payloads = malloc((size_t)MAX_SEGMENTS * PAYLOAD_BYTES);
  unsigned char* loaded = malloc((size_t)MAX_SEGMENTS * PAYLOAD_BYTES);
  if (payloads == NULL || loaded == NULL) {
    fprintf(stderr, "out of memory\n");
  } else if (ember_client_create(&options, &client) != EMBER_OK) {
    result = fail("client");
  } else if (ember_chain_create(&id, &chain) != EMBER_OK) {
    result = fail("chain");
  } else if (ember_chain_append(chain, tokens, TOKENS, NULL) != EMBER_OK) {
    result = fail("append");
  } else {
    result = run(client, chain, tokens, payloads, loaded);
  }
  ember_chain_destroy(chain);
  ember_client_destroy(client);
  free(payloads);
  free(loaded);
  return result;
}
