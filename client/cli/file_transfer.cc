#include "client/cli/file_transfer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "client/io/file_descriptor.h"

namespace ember::cli {
namespace {

Status FileError(const std::string& path, int error) {
  const std::string why = path + ": " + std::strerror(error);
  return error == ENOENT ? NotFoundError(why) : InvalidError(why);
}

Status ReadAt(int fd, uint64_t offset, MutableByteSpan out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return UnavailableError(std::string("read: ") + std::strerror(errno));
    if (n == 0) return InvalidError("the file became shorter while it was read");
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return OkStatus();
}

Status WriteAll(int fd, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return NoSpaceError(std::string("write: ") + std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return OkStatus();
}

Result<uint64_t> RegularFileSize(const std::string& path, int fd) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return FileError(path, errno);
  if (!S_ISREG(info.st_mode)) return InvalidError(path + ": not a regular file");
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > kMaxFileBytes) return InvalidError(path + ": larger than 1 TiB");
  return size;
}

// Removes the file it names unless it was kept.
class PartialFile {
 public:
  explicit PartialFile(std::string path) : path_(std::move(path)) {}
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }
  Status RenameTo(const std::string& path) {
    if (::rename(path_.c_str(), path.c_str()) != 0) return FileError(path, errno);
    path_.clear();
    return OkStatus();
  }

 private:
  std::string path_;
};

}  // namespace

std::string MissText(MissReason reason) {
  const std::string name(MissReasonName(reason));
  switch (reason) {
    case MissReason::kNone:
      return "present";
    case MissReason::kNeverStored:
      return name + ": no node has heard of it";
    case MissReason::kEvicted:
      return name + ": it was there, and made room for others";
    case MissReason::kExpired:
      return name + ": it was there, and its time to live is over";
    case MissReason::kPurged:
      return name + ": it was purged";
    case MissReason::kLostNode:
      return name + ": its nodes can't be reached, or lost their memory";
    case MissReason::kDeadline:
      return name + ": its nodes did not answer in time";
    case MissReason::kCorrupt:
      return name + ": the bytes did not match their checksum";
    case MissReason::kBusy:
      return name + ": its nodes refuse for load, try again";
    default:
      return name;
  }
}

Result<FileManifest> FileTransfer::Find(const std::string& name) {
  if (name.empty() || name.size() > kMaxFileNameBytes) {
    return InvalidError("a name has 1 to " + std::to_string(kMaxFileNameBytes) + " bytes");
  }
  const FileChain chain = FileChain::OfName(name);
  Bytes bytes(kManifestBytes);
  const GetRequest request{chain.refs()[0], chain.tokens(0), bytes};
  const GetResult got = client_.Get({&request, 1}, chain.layout(), options_.timeout);
  if (got.usable == 1) return DecodeFileManifest(bytes);
  const Status status = NotFoundError("\"" + name + "\": " + MissText(got.misses[0]));
  return got.misses[0] == MissReason::kLostNode || got.misses[0] == MissReason::kDeadline
             ? UnavailableError(std::string(status.message()))
             : status;
}

Result<FileTransfer::PutReport> FileTransfer::Put(const std::string& path,
                                                  const std::string& name) {
  const io::FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return FileError(path, errno);
  Result<uint64_t> size = RegularFileSize(path, fd.get());
  if (!size.ok()) return size.status();
  Result<Sha256Digest> digest = Sha256OfFile(path);
  if (!digest.ok()) return digest.status();
  PutReport report{.manifest = {*size, *digest},
                   .fewest_copies = kMaxCopies,
                   .fewest_disk_copies = kMaxCopies,
                   .degraded = {}};

  Result<FileManifest> there = Find(name);
  if (there.ok() && *there != report.manifest) {
    return MismatchError("\"" + name + "\" is another file (" + std::to_string(there->size) +
                         " bytes, sha256 " + ToHex(there->digest).substr(0, 16) +
                         "...); what is stored never changes, so choose another name");
  }
  if (there.status().code() == StatusCode::kInvalid) return there.status();
  const FileChain chain = FileChain::OfContent(report.manifest);
  EMBER_RETURN_IF_ERROR(PutChunks(fd.get(), chain, &report));
  if (Result<uint64_t> after = RegularFileSize(path, fd.get()); !after.ok() || *after != *size) {
    return InvalidError(path + ": changed while it was read");
  }
  EMBER_RETURN_IF_ERROR(PutManifest(name, &report));
  for (const SegmentMatch& segment : client_.Match(chain.refs(), options_.timeout).segments) {
    report.lost_already += segment.miss == MissReason::kNone ? 0 : 1;
  }
  return report;
}

Status FileTransfer::PutChunks(int fd, const FileChain& chain, PutReport* report) {
  const FileManifest& manifest = report->manifest;
  Bytes buffer(std::min<uint64_t>(manifest.size, options_.chunks_per_batch * kChunkBytes));
  for (uint64_t begin = 0; begin < manifest.chunk_count(); begin += options_.chunks_per_batch) {
    const uint64_t offset = begin * kChunkBytes;
    const MutableByteSpan batch =
        MutableByteSpan(buffer).first(std::min<uint64_t>(buffer.size(), manifest.size - offset));
    EMBER_RETURN_IF_ERROR(ReadAt(fd, offset, batch));
    std::vector<PutRequest> requests;
    for (uint64_t at = 0; at < batch.size(); at += kChunkBytes) {
      const uint64_t chunk = begin + at / kChunkBytes;
      requests.push_back({chain.refs()[chunk],
                          chain.tokens(chunk),
                          batch.subspan(at, manifest.chunk_size(chunk)),
                          {}});
    }
    const std::vector<PutOutcome> outcomes =
        client_.Put(requests, chain.layout(), options_.timeout, {options_.ack});
    for (size_t i = 0; i < outcomes.size(); ++i) {
      report->chunks_sent += outcomes[i].was_there ? 0 : 1;
      EMBER_RETURN_IF_ERROR(Note(outcomes[i], "chunk " + std::to_string(begin + i), report));
    }
    options_.progress(offset + batch.size(), manifest.size);
  }
  return OkStatus();
}

Status FileTransfer::PutManifest(const std::string& name, PutReport* report) {
  const FileChain chain = FileChain::OfName(name);
  const Bytes bytes = Encode(report->manifest);
  const PutRequest request{chain.refs()[0], chain.tokens(0), bytes, {}};
  const PutOutcome outcome =
      client_.Put({&request, 1}, chain.layout(), options_.timeout, {options_.ack})[0];
  return Note(outcome, "manifest", report);
}

Status FileTransfer::Note(const PutOutcome& outcome, const std::string& what, PutReport* report) {
  if (outcome.copies == 0) return outcome.status.WithContext(what);
  report->fewest_copies = std::min(report->fewest_copies, outcome.copies);
  report->fewest_disk_copies = std::min(report->fewest_disk_copies, outcome.disk_copies);
  if (report->degraded.ok()) report->degraded = outcome.status;
  return OkStatus();
}

Result<FileManifest> FileTransfer::Get(const std::string& name, const std::string& path) {
  Result<FileManifest> manifest = Find(name);
  if (!manifest.ok()) return manifest;
  if (path == "-") {
    EMBER_RETURN_IF_ERROR(GetChunks(*manifest, STDOUT_FILENO));
    return manifest;
  }
  std::string partial = path + ".XXXXXX";
  const io::FileDescriptor fd(::mkostemp(partial.data(), O_CLOEXEC));
  if (!fd.valid()) return FileError(path, errno);
  PartialFile file(partial);
  ::fchmod(fd.get(), 0644);
  EMBER_RETURN_IF_ERROR(GetChunks(*manifest, fd.get()));
  Result<Sha256Digest> digest = Sha256OfFile(file.path());
  if (!digest.ok()) return digest.status();
  if (*digest != manifest->digest) {
    return CorruptError("\"" + name +
                        "\": the file as a whole has another digest than when it was put");
  }
  EMBER_RETURN_IF_ERROR(file.RenameTo(path));
  return manifest;
}

Status FileTransfer::GetChunks(const FileManifest& manifest, int fd) {
  const FileChain chain = FileChain::OfContent(manifest);
  Bytes buffer(std::min<uint64_t>(manifest.size, options_.chunks_per_batch * kChunkBytes));
  for (uint64_t begin = 0; begin < manifest.chunk_count(); begin += options_.chunks_per_batch) {
    const uint64_t offset = begin * kChunkBytes;
    const MutableByteSpan batch =
        MutableByteSpan(buffer).first(std::min<uint64_t>(buffer.size(), manifest.size - offset));
    std::vector<GetRequest> requests;
    for (uint64_t at = 0; at < batch.size(); at += kChunkBytes) {
      const uint64_t chunk = begin + at / kChunkBytes;
      requests.push_back({chain.refs()[chunk], chain.tokens(chunk),
                          batch.subspan(at, manifest.chunk_size(chunk))});
    }
    const GetResult got = client_.Get(requests, chain.layout(), options_.timeout);
    if (got.usable < requests.size()) {
      return NotFoundError("chunk " + std::to_string(begin + got.usable) + " of " +
                           std::to_string(manifest.chunk_count()) + ": " +
                           MissText(got.misses[got.usable]));
    }
    EMBER_RETURN_IF_ERROR(WriteAll(fd, batch));
    options_.progress(offset + batch.size(), manifest.size);
  }
  return OkStatus();
}

Result<FileTransfer::MatchReport> FileTransfer::Match(const std::string& name) {
  Result<FileManifest> manifest = Find(name);
  if (!manifest.ok()) return manifest.status();
  const FileChain chain = FileChain::OfContent(*manifest);
  const MatchResult match = client_.Match(chain.refs(), options_.timeout);
  MatchReport report{.manifest = *manifest, .usable = match.usable, .missing = {}};
  for (const SegmentMatch& segment : match.segments) {
    if (segment.miss == MissReason::kNone) {
      ++report.present;
    } else {
      ++report.missing[segment.miss];
    }
  }
  return report;
}

}  // namespace ember::cli
