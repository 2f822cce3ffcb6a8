// ember put, ember get, ember match: files in the store.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "client/cli/command.h"
#include "client/cli/file_transfer.h"
#include "client/cli/text.h"

namespace ember::cli {
namespace {

struct FileFlags {
  StoreFlags store;
  std::string name;
  std::string path;
  std::string ack = "memory";
  bool quiet = false;

  AckLevel ack_level() const { return ack == "disk" ? AckLevel::kDisk : AckLevel::kMemory; }
};

// Redraws one line on a terminal, four times a second; silent elsewhere.
class Progress {
 public:
  explicit Progress(bool quiet) : shown_(!quiet && ::isatty(STDERR_FILENO)) {}
  void Show(uint64_t done, uint64_t whole) {
    const TimePoint now = std::chrono::steady_clock::now();
    if (!shown_ || (now - last_ < milliseconds(250) && done != whole)) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const auto rate = static_cast<uint64_t>(static_cast<double>(done) / std::max(seconds, 1e-3));
    std::fprintf(stderr, "\r  %s %s of %s, %s/s \033[K%s", BarText(done, whole, 30).c_str(),
                 ByteText(done).c_str(), ByteText(whole).c_str(), ByteText(rate).c_str(),
                 done == whole ? "\n" : "");
  }
  Duration elapsed() const { return std::chrono::steady_clock::now() - start_; }

 private:
  const bool shown_;
  const TimePoint start_ = std::chrono::steady_clock::now();
  TimePoint last_{};
};

std::string Describe(const FileManifest& manifest) {
  return fmt::format("{}, {} chunks, sha256 {}", ByteText(manifest.size), manifest.chunk_count(),
                     ToHex(manifest.digest));
}

// Runs `work` with a transfer against the cluster that the flags name.
template <typename Work>
int WithTransfer(const FileFlags& flags, Progress* progress, Work work) {
  Result<std::unique_ptr<StoreClient>> client = flags.store.Connect("ember-cli");
  if (!client.ok()) {
    (void)Complain(client.status());
    return client.status().code() == StatusCode::kInvalid ? kWrongUsage : kFailed;
  }
  FileTransfer transfer(**client, {.timeout = flags.store.timeout(),
                                   .ack = flags.ack_level(),
                                   .progress = [progress](uint64_t done, uint64_t whole) {
                                     progress->Show(done, whole);
                                   }});
  return work(transfer);
}

int Put(const FileFlags& flags) {
  Progress progress(flags.quiet);
  return WithTransfer(flags, &progress, [&](FileTransfer& transfer) {
    const auto report = transfer.Put(flags.path, flags.name);
    if (!report.ok()) return Complain(report.status().WithContext("put"));
    std::printf("%s: %s\n", flags.name.c_str(), Describe(report->manifest).c_str());
    const bool disk = flags.ack_level() == AckLevel::kDisk;
    const uint32_t copies = disk ? report->fewest_disk_copies : report->fewest_copies;
    std::printf("  %s chunks sent in %s, the others were there; %u %s %s\n",
                CountText(report->chunks_sent).c_str(), DurationText(progress.elapsed()).c_str(),
                copies, copies == 1 ? "copy" : "copies", disk ? "on disk" : "in memory");
    if (report->lost_already > 0) {
      std::fprintf(stderr,
                   "ember: %s of its chunks are gone already: the store is too small for it\n",
                   CountText(report->lost_already).c_str());
    }
    if (!report->degraded.ok()) {
      std::fprintf(stderr, "ember: fewer copies than asked: %s\n",
                   report->degraded.ToString().c_str());
    }
    if (copies > 0) return kDone;
    std::fprintf(stderr,
                 "ember: stored in memory, but not all of it on a disk: the nodes have no disk "
                 "tier, or it takes no writes\n");
    return kFailed;
  });
}

int Get(const FileFlags& flags) {
  Progress progress(flags.quiet || flags.path == "-");
  return WithTransfer(flags, &progress, [&](FileTransfer& transfer) {
    const auto manifest = transfer.Get(flags.name, flags.path);
    if (!manifest.ok()) return Complain(manifest.status().WithContext("get"));
    if (flags.path != "-") {
      std::printf("%s: %s, every chunk and the whole verified, in %s\n", flags.path.c_str(),
                  Describe(*manifest).c_str(), DurationText(progress.elapsed()).c_str());
    }
    return kDone;
  });
}

int Match(const FileFlags& flags) {
  Progress progress(/*quiet=*/true);
  return WithTransfer(flags, &progress, [&](FileTransfer& transfer) {
    const auto report = transfer.Match(flags.name);
    if (!report.ok()) return Complain(report.status().WithContext("match"));
    const uint64_t chunks = report->manifest.chunk_count();
    std::printf("%s: %s\n", flags.name.c_str(), Describe(report->manifest).c_str());
    std::printf("  %s of %s chunks present (%s), the first %s unbroken\n",
                CountText(report->present).c_str(), CountText(chunks).c_str(),
                chunks == 0 ? "100%" : ShareText(report->present, chunks).c_str(),
                CountText(report->usable).c_str());
    for (const auto& [reason, count] : report->missing) {
      std::printf("  %s missing, %s\n", CountText(count).c_str(), MissText(reason).c_str());
    }
    return report->present == chunks ? kDone : kMissing;
  });
}

FileFlags* AddFlags(CLI::App* command) {
  // Lives as long as the program: CLI11 keeps references into it.
  static std::vector<std::unique_ptr<FileFlags>> all;
  FileFlags* flags = all.emplace_back(std::make_unique<FileFlags>()).get();
  command->add_option("--name,-n", flags->name, "The file's name in the store")->required();
  flags->store.AddTo(command);
  return flags;
}

}  // namespace

void AddFileCommands(CLI::App* app, int* exit_code) {
  CLI::App* put = app->add_subcommand("put", "Store a file under a name");
  put->footer(
      "The file is cut into 1 MiB segments named by its SHA-256, and a manifest under the name. "
      "What is\n"
      "stored never changes: another file under the same name is refused. It is a cache: under "
      "memory\n"
      "pressure any of it may be evicted. With --ack disk it is on the disk of at least one node "
      "when\n"
      "the command ends, and survives the loss of every node's power.\n\n"
      "Examples:\n"
      "  ember put model.gguf --name smollm2\n"
      "  ember put big.bin -n big --stores 10.0.0.1:7101,10.0.0.2:7101 --copies 1\n"
      "  ember put model.gguf -n smollm2 --ack disk\n\n"
      "Exit codes: 0 stored, 1 not, or not at the level that --ack asks for, 2 wrong usage.");
  FileFlags* put_flags = AddFlags(put);
  put->add_option("FILE", put_flags->path, "File to store")->required();
  put->add_option("--ack", put_flags->ack, "What to wait for: copies in memory, or on disk")
      ->check(CLI::IsMember({"memory", "disk"}))
      ->capture_default_str();
  put->add_flag("--quiet,-q", put_flags->quiet, "No progress");
  put->callback([=] { *exit_code = Put(*put_flags); });

  CLI::App* get = app->add_subcommand("get", "Load a file by its name");
  get->footer(
      "Every chunk is verified on arrival and the whole before the file appears under its name; "
      "there\n"
      "is never half a file. A miss says what is missing and why.\n\n"
      "Examples:\n"
      "  ember get --name smollm2 -o model.gguf\n"
      "  ember get -n notes -o - | less\n\n"
      "Exit codes: 0 loaded, 1 failed, 2 wrong usage, 3 not (wholly) in the store.");
  FileFlags* get_flags = AddFlags(get);
  get->add_option("--output,-o", get_flags->path, "Where to write it; - is standard output")
      ->required();
  get->add_flag("--quiet,-q", get_flags->quiet, "No progress");
  get->callback([=] { *exit_code = Get(*get_flags); });

  CLI::App* match = app->add_subcommand("match", "Say how much of a file is in the store");
  match->footer(
      "Asks every owner and says, for what is missing, why. Moves no data.\n\n"
      "Examples:\n"
      "  ember match --name smollm2\n"
      "  ember match -n big && ember get -n big -o big.bin\n\n"
      "Exit codes: 0 all of it, 1 failed, 2 wrong usage, 3 not all of it.");
  FileFlags* match_flags = AddFlags(match);
  match->callback([=] { *exit_code = Match(*match_flags); });
}

}  // namespace ember::cli
