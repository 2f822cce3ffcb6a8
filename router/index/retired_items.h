// RetiredItems: numbered things that were unlinked and wait until no reader can see them. They are
// chained through a field of theirs, so that a reader who stays long costs no memory. The writer's
// thread. `Links::Link(n)` gives the field.
#pragma once

#include <cstdint>
#include <utility>

#include "router/index/reader_epochs.h"

namespace ember::router {

struct ItemList {
  uint32_t first = 0;  // 0: empty
  uint32_t last = 0;
  uint32_t count = 0;
};

template <typename Links>
class RetiredItems {
 public:
  void Add(Links& links, uint32_t item) {
    links.Link(item) = waiting_.first;
    waiting_.first = item;
    if (waiting_.last == 0) waiting_.last = item;
    ++waiting_.count;
  }

  uint32_t count() const { return waiting_.count + sealed_.count; }

  // Those that may be reused, the one that was added last first; empty when there are none yet.
  ItemList Take(ReaderEpochs& epochs) {
    if (sealed_.count == 0 && waiting_.count > 0) {
      sealed_ = std::exchange(waiting_, {});
      ticket_ = epochs.Retire();
    }
    if (sealed_.count == 0 || !epochs.Passed(ticket_)) return {};
    return std::exchange(sealed_, {});
  }

 private:
  ItemList waiting_;
  ItemList sealed_;
  ReaderEpochs::Ticket ticket_ = 0;
};

}  // namespace ember::router
