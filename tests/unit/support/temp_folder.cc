#include "tests/unit/support/temp_folder.h"

#include <stdlib.h>

#include <filesystem>

#include "proto/base/check.h"

namespace ember {

std::string MakeTempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "ember-test-XXXXXX").string();
  EMBER_CHECK(mkdtemp(name.data()) != nullptr, "a folder for the test");
  return name;
}

}  // namespace ember
