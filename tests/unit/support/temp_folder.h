// A new folder under the system's temporary one; whoever made it removes it.
#pragma once

#include <string>

namespace ember {

std::string MakeTempFolder();

}  // namespace ember
