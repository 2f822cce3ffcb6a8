// The digest of what a request puts before the model: its prompt with all that shapes it, whatever
// else is asked. Pure, linear in the body, safe on any bytes; any thread.
#pragma once

#include <string_view>

#include "proto/base/checksum.h"

namespace ember::router {

// Of a JSON body's members that the model sees, in whatever order they stand; of a body without
// such, or that is none, of all of it.
Checksum PromptDigestOf(std::string_view path, std::string_view body);

}  // namespace ember::router
