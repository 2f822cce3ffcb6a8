#include "client/cli/sister_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "client/cli/command.h"

namespace ember::cli {
namespace {

struct Sister {
  const char* command;
  const char* description;
};

constexpr Sister kSisters[] = {
    {"trace", "Replay request traces against the store's eviction policies"},
    {"fsck", "Check a data directory that no node uses"},
};

}  // namespace

void AddSisterPrograms(CLI::App* app) {
  for (const Sister& sister : kSisters) app->add_subcommand(sister.command, sister.description);
}

std::optional<int> BecomeSisterProgram(char** argv) {
  for (const Sister& sister : kSisters) {
    if (argv[1] == nullptr || std::strcmp(argv[1], sister.command) != 0) continue;
    Result<std::string> folder = ProgramFolder();
    if (!folder.ok()) return Complain(folder.status());
    const std::string program = *folder + "/ember-" + sister.command;
    ::execv(program.c_str(), argv + 1);
    return Complain(UnavailableError(program + ": " + std::strerror(errno)));
  }
  return std::nullopt;
}

}  // namespace ember::cli
