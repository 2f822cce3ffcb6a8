// The C ABI of the Rust library in this folder: a model's tokenizer and chat template.
//
// Concurrency: a loaded model may be used from any threads at once. What a call gives out by
// pointer lies in a buffer of the calling thread and stays until the next call on that thread, but
// for EmberTokenProperties, whose pointers stay as long as the model. No call throws or aborts.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct EmberTokens EmberTokens;

typedef struct EmberTokenProperties {
  uint32_t fast;            // 1: the fast tokenizer proved equal to the reference; 0: the reference
  uint32_t cuts;            // rules of cut_points.h that no token of the vocabulary breaks
  uint32_t ids;             // size of the vocabulary, added tokens included
  uint32_t has_template;    // 1: there is a chat template
  uint32_t opaque;          // 1: what the template looks for in texts can't be told
  uint32_t uses_time;       // 1: what it renders depends on the day
  const uint8_t* literals;  // what it looks for in texts, each ended by a zero byte
  size_t literals_length;
  const uint32_t* before;  // ids that the tokenizer puts before a text, when asked to
  size_t before_count;
  const uint32_t* after;
  size_t after_count;
} EmberTokenProperties;

// Why a call gave nothing; 0 is success.
enum {
  EMBER_TOKENS_INVALID = 1,           // no UTF-8, no JSON, or not the members that a request has
  EMBER_TOKENS_NO_TEMPLATE = 2,       // the model has none
  EMBER_TOKENS_TEMPLATE = 3,          // the template raised an error
  EMBER_TOKENS_REQUEST_TEMPLATE = 4,  // the request brings its own
  EMBER_TOKENS_UNSUPPORTED = 5,
  EMBER_TOKENS_STATEFUL = 6,  // the prompt depends on what the engine remembers
  EMBER_TOKENS_PANIC = 7,     // a library failed
};

// Which API's members a request has.
enum { EMBER_TOKENS_CHAT = 0, EMBER_TOKENS_RESPONSES = 1, EMBER_TOKENS_ANTHROPIC = 2 };

// Reads a folder as on a model hub, or a tokenizer.json alone. Null: `error` says why. The
// reference tokenizer stays loaded beside the fast one if `keep_reference`; it costs much memory.
EmberTokens* ember_tokens_load(const char* path, size_t path_length, uint32_t keep_reference,
                               const char** error, size_t* error_length);
void ember_tokens_free(EmberTokens* model);
void ember_tokens_properties(const EmberTokens* model, EmberTokenProperties* out);

// The ids of a text of UTF-8 alone, added tokens in it recognised.
uint32_t ember_tokens_encode(const EmberTokens* model, const char* text, size_t text_length,
                             uint32_t by_reference, const uint32_t** ids, size_t* count);

// The prompt's text for a request's JSON. `cut`: something that is no text follows in the prompt.
uint32_t ember_tokens_render(const EmberTokens* model, uint32_t api, const char* request,
                             size_t request_length, const char** text, size_t* text_length,
                             uint32_t* cut);

#ifdef __cplusplus
}
#endif
