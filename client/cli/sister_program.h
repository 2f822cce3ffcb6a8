// Sister programs: `ember trace` and `ember fsck` become ember-trace and ember-fsck of the same
// folder, which have code of the node in them that this program does not need.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

namespace ember::cli {

// For the list of commands in the help.
void AddSisterPrograms(CLI::App* app);

// Does not return when argv[1] names one that can be run: the rest of the command line is its. An
// exit code when it can't; nothing when argv[1] is something else. Call it first of all.
std::optional<int> BecomeSisterProgram(char** argv);

}  // namespace ember::cli
