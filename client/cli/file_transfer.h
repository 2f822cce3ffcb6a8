// FileTransfer: puts, gets and matches whole files over a StoreClient, a few chunks at a time, so
// that a file of any size needs little memory.
//
// Blocking; one thread at a time.
#pragma once

#include <functional>
#include <map>

#include "client/cli/file_chain.h"
#include "client/store_client/store_client.h"

namespace ember::cli {

// "evicted: it was there, and made room for others"
std::string MissText(MissReason reason);

struct FileTransferOptions {
  Duration timeout = seconds(10);  // of each batch
  size_t chunks_per_batch = 16;
  AckLevel ack = AckLevel::kMemory;  // what a put waits for
  // Called with bytes done and the file's size.
  std::function<void(uint64_t, uint64_t)> progress = [](uint64_t, uint64_t) {};
};

class FileTransfer {
 public:
  FileTransfer(StoreClient& client, FileTransferOptions options)
      : client_(client), options_(std::move(options)) {}

  struct PutReport {
    FileManifest manifest;
    uint64_t chunks_sent = 0;         // the others were there
    uint32_t fewest_copies = 0;       // of any chunk or the manifest
    uint32_t fewest_disk_copies = 0;  // on disk; told at AckLevel::kDisk
    uint64_t lost_already = 0;        // chunks that made room for the file's later ones
    Status degraded;                  // why some chunk has fewer copies than asked
  };
  // kMismatch when the name is taken by another file: what is stored never changes. Otherwise the
  // first chunk's error that found no node. That fewer copies are on disk than asked is no error.
  Result<PutReport> Put(const std::string& path, const std::string& name);

  // kNotFound says what is missing and why. The file appears at `path` only when it is complete and
  // its digest is right; "-" is standard output, where the chunks are checked one by one.
  Result<FileManifest> Get(const std::string& name, const std::string& path);

  struct MatchReport {
    FileManifest manifest;
    uint64_t present = 0;  // chunks
    uint64_t usable = 0;   // from the start, unbroken
    std::map<MissReason, uint64_t> missing;
  };
  Result<MatchReport> Match(const std::string& name);

 private:
  Result<FileManifest> Find(const std::string& name);
  Status PutChunks(int fd, const FileChain& chain, PutReport* report);
  Status PutManifest(const std::string& name, PutReport* report);
  Status Note(const PutOutcome& outcome, const std::string& what, PutReport* report);
  Status GetChunks(const FileManifest& manifest, int fd);

  StoreClient& client_;
  const FileTransferOptions options_;
};

}  // namespace ember::cli
