#include "simulator/machine/remote_clock.h"

#include <algorithm>
#include <utility>

#include "simulator/machine/vector_clock.h"

namespace jfa::simulator {

const VectorClock* RemoteClock::of(ClusterId cluster) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), cluster,
                                   [](const Entry& e, ClusterId wanted) { return e.cluster < wanted; });
  return at != entries_.end() && at->cluster == cluster ? at->clock.get() : nullptr;
}

RemoteClock::Pointer RemoteClock::join(const Pointer& a, const Pointer& b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  auto joined = std::make_shared<RemoteClock>();
  auto x = a->entries_.begin(), y = b->entries_.begin();
  while (x != a->entries_.end() || y != b->entries_.end()) {
    if (y == b->entries_.end() || (x != a->entries_.end() && x->cluster < y->cluster)) {
      joined->entries_.push_back(*x++);
    } else if (x == a->entries_.end() || y->cluster < x->cluster) {
      joined->entries_.push_back(*y++);
    } else {
      Entry entry = *x;
      if (x->clock != y->clock) {
        auto clock = std::make_shared<VectorClock>(*x->clock);
        clock->join(*y->clock);
        entry.clock = std::move(clock);
      }
      joined->entries_.push_back(std::move(entry));
      ++x, ++y;
    }
  }
  return joined;
}

RemoteClock::Pointer RemoteClock::fenced(const Pointer& clock) {
  if (clock == nullptr) return nullptr;
  auto fenced = std::make_shared<RemoteClock>(*clock);
  for (Entry& entry : fenced->entries_) {
    auto own = std::make_shared<VectorClock>(*entry.clock);
    own->fence_seen(FencedSpace::kGlobal);
    entry.clock = std::move(own);
  }
  return fenced;
}

RemoteClock::Pointer RemoteClock::with(const Pointer& base, ClusterId cluster,
                                       std::shared_ptr<const VectorClock> clock) {
  auto own = std::make_shared<RemoteClock>();
  own->entries_.push_back({cluster, std::move(clock)});
  return join(base, own);
}

void VectorClock::learn(const RemoteClock::Pointer& remote) { remote_ = RemoteClock::join(remote_, remote); }

}  // namespace jfa::simulator
