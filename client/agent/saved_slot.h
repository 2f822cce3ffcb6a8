// SavedSlot: a slot's content as the engine wrote it, checked. Shared between the request that
// saved it and the pusher; immutable, any thread. Its memory is given back with the last owner.
#pragma once

#include <memory>
#include <string>

#include "client/agent/slot_file.h"
#include "client/agent/slot_folder.h"

namespace ember::agent {

class SavedSlot {
 public:
  // Takes the file over (its name is gone afterwards, whatever the outcome).
  static Result<std::shared_ptr<const SavedSlot>> Take(const SlotFolder& folder,
                                                       const std::string& name) {
    Result<MappedFile> mapped = folder.Take(name);
    if (!mapped.ok()) return mapped.status();
    Result<SlotFile> file = SlotFile::Parse(mapped->bytes());
    if (!file.ok()) return file.status();
    return std::shared_ptr<const SavedSlot>(new SavedSlot(*std::move(mapped), *std::move(file)));
  }

  const SlotFile& file() const { return file_; }
  size_t bytes() const { return mapped_.bytes().size(); }

 private:
  SavedSlot(MappedFile mapped, SlotFile file)
      : mapped_(std::move(mapped)), file_(std::move(file)) {}

  MappedFile mapped_;
  SlotFile file_;  // a view of mapped_
};

}  // namespace ember::agent
