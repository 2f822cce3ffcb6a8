// ember bench disk: what the disk tier of a node keeps, and how fast it gives it back.
#include <cstdio>
#include <filesystem>

#include "client/cli/command.h"
#include "client/cli/disk_bench.h"

namespace ember::cli {
namespace {

struct DiskFlags {
  DiskBenchOptions options;
  bool json = false;
};

int Bench(DiskFlags flags) {
  Result<std::string> folder = ProgramFolder();
  if (!folder.ok()) return Complain(folder.status());
  flags.options.program = *folder + "/ember-store";
  // A folder of its own within the one that was named, so that nothing of anybody's is touched.
  const std::string own = flags.options.directory + "/ember-bench-disk";
  std::error_code error;
  if (std::filesystem::exists(own, error)) {
    return Complain(InvalidError(own + " is there already: remove it first"));
  }
  flags.options.directory = own;
  Result<std::vector<BenchFigure>> figures = DiskBench(flags.options).Run();
  std::filesystem::remove_all(own, error);
  if (!figures.ok()) return Complain(figures.status());
  PrintFigures(*figures, flags.json);
  return kDone;
}

}  // namespace

void AddDiskBenchCommand(CLI::App* bench, int* exit_code) {
  static DiskFlags flags;
  CLI::App* disk = bench->add_subcommand("disk", "Kill, restart and read a node with a disk tier");
  disk->footer(
      "Starts a node of its own on loopback, with its data in FOLDER/ember-bench-disk (removed at "
      "the\n"
      "end), kills it with SIGKILL and starts it again. Every byte is compared with what was "
      "put.\n\n"
      "Example:\n"
      "  ember bench disk /var/tmp --read 4GiB\n\n"
      "Exit codes: 0 done, 1 failed or wrong bytes, 2 wrong usage.");
  disk->add_option("folder", flags.options.directory, "On the disk to measure")
      ->required()
      ->check(CLI::ExistingDirectory);
  disk->add_option("--survivors", flags.options.survivors,
                   "Segments of 1 MiB acknowledged on disk before the kill")
      ->check(Within(1, 65536))
      ->capture_default_str();
  disk->add_option("--read", flags.options.read_bytes, "Bytes on disk that are read")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true).description(""))
      ->type_name("SIZE")
      ->default_str("1GiB");
  disk->add_option("--rounds", flags.options.rounds, "How often they are read")
      ->check(Within(1, 100))
      ->capture_default_str();
  disk->add_option("--node-flag", flags.options.node_flags, "One more flag of the node; repeatable")
      ->type_name("FLAG");
  disk->add_flag("--json", flags.json, "A JSON object a line for each figure");
  disk->callback([exit_code] { *exit_code = Bench(flags); });
}

}  // namespace ember::cli
