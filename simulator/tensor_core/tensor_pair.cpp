#include "simulator/tensor_core/tensor_pair.h"

#include <fmt/format.h>

#include <algorithm>

namespace jfa::simulator {
namespace {

// Whether a lane of the warp knows that the event is over. The instruction comes behind what each of them
// knows: it is `.sync`.
bool knows(const Warp& warp, const Epoch& event) {
  VectorClock known;
  warp.clock->tell(warp.live(), known);
  return event.tick != 0 && warp.cta().cluster().order.ordered(event, &known, true);
}

std::string name_of(const Cta& cta) {
  const Dim3& c = cta.index();
  return fmt::format("CTA ({},{},{})", c.x, c.y, c.z);
}

}  // namespace

// --- Waits

class TensorPair::AllocateWait : public Wait {
 public:
  AllocateWait(const TensorPair& pair, std::size_t side, const Warp& warp)
      : pair_(pair), side_(side), warp_(warp) {}
  bool ready() const override {
    const std::optional<Request>& own = pair_.sides_[side_].request;
    if (!own || own->granted) return !own || own->warp == &warp_;
    return own->warp == &warp_ && pair_.both_ask() &&
           (columns(0) != columns(1) || TensorMemory::common_fit(memory(0), memory(1), own->columns));
  }
  std::string describe() const override {
    const std::optional<Request>& own = pair_.sides_[side_].request;
    if (own && own->warp != &warp_) return "another warp's tcgen05.alloc";
    if (!pair_.both_ask()) return pair_.name_peer(side_, "tcgen05.alloc");
    return fmt::format("{} columns that are free in the tensor memories of both CTAs (SM {}: {}; SM {}: {})",
                       own->columns, pair_.sides_[0].cta->sm().index(), memory(0).describe_allocations(),
                       pair_.sides_[1].cta->sm().index(), memory(1).describe_allocations());
  }

 private:
  std::uint32_t columns(std::size_t side) const { return pair_.sides_[side].request->columns; }
  const TensorMemory& memory(std::size_t side) const { return pair_.sides_[side].memory().memory(); }
  const TensorPair& pair_;
  std::size_t side_;
  const Warp& warp_;
};

class TensorPair::DeallocateWait : public Wait {
 public:
  DeallocateWait(TensorPair& pair, std::size_t side, std::uint64_t serial)
      : pair_(pair), side_(side), serial_(serial) {}
  bool ready() const override { return pair_.find(serial_) == nullptr; }
  std::string describe() const override {
    const Allocation& a = *pair_.find(serial_);
    return fmt::format("{} of columns {}..{}", pair_.name_peer(side_, "tcgen05.dealloc"), a.first_column,
                       a.first_column + a.columns - 1);
  }

 private:
  TensorPair& pair_;
  std::size_t side_;
  std::uint64_t serial_;
};

class TensorPair::RelinquishWait : public Wait {
 public:
  RelinquishWait(const TensorPair& pair, std::size_t side) : pair_(pair), side_(side) {}
  bool ready() const override { return pair_.sides_[side_ ^ 1].relinquished.has_value(); }
  std::string describe() const override { return pair_.name_peer(side_, "tcgen05.relinquish_alloc_permit"); }

 private:
  const TensorPair& pair_;
  std::size_t side_;
};

std::string TensorPair::name_peer(std::size_t side, const char* instruction) const {
  const Cta& peer = *sides_[side ^ 1].cta;
  return fmt::format("the peer, {}{}, to execute its {}.cta_group::2", name_of(peer),
                     peer.exited() ? ", which has exited" : "", instruction);
}

// --- alloc

TensorPair::TensorPair(Cta& even, Cta& odd) {
  sides_[0].cta = &even;
  sides_[1].cta = &odd;
}

bool TensorPair::both_ask() const {
  return std::all_of(sides_.begin(), sides_.end(),
                     [](const Side& side) { return side.request && !side.request->granted; });
}

std::optional<std::uint32_t> TensorPair::allocate(Warp& warp, std::uint32_t columns,
                                                  const ProgramPoint& point) {
  const std::size_t side = side_of(warp.cta());
  Side& own = sides_[side];
  const Side& peer = sides_[side ^ 1];
  if (!own.request) {
    if (warp.clock != nullptr && !knows(warp, peer.cta->started()))
      fail(ErrorKind::kTensorMemory, point,
           fmt::format(
               "tcgen05.alloc.cta_group::2, and nothing says that the peer, {}, runs: a barrier of the "
               "cluster, say, has to come first",
               name_of(*peer.cta)));
    own.memory().memory().check_request(own.cta, columns, point);
    if (peer.relinquished && !peer.request)
      fail(
          ErrorKind::kTensorMemory, point,
          fmt::format("tcgen05.alloc.cta_group::2, but the peer, {}, has relinquished its permit to allocate",
                      name_of(*peer.cta)),
          fmt::format("  the peer: {}", peer.relinquished->describe()));
    own.request = Request{&warp, columns, point, {}};
  }
  if (own.request->warp != &warp) return std::nullopt;
  if (both_ask()) grant(point);
  if (!own.request->granted) return std::nullopt;
  const std::uint32_t first = *own.request->granted;
  own.request.reset();
  if (warp.clock == nullptr) return first;
  if (own.allocation.strand == 0)
    own.allocation.strand =
        own.cta->cluster().order.add_tensor_strand(fmt::format("tcgen05.alloc of {}", name_of(*own.cta)));
  ++own.allocation.tick;
  warp.acquire(warp.live(), own.allocation);
  for (Allocation& a : allocations_)
    if (a.first_column == first) a.complete[side] = own.allocation;
  return first;
}

std::unique_ptr<Wait> TensorPair::wait_to_allocate(Warp& warp) {
  return std::make_unique<AllocateWait>(*this, side_of(warp.cta()), warp);
}

// Gives both what they ask for, if it is free.
void TensorPair::grant(const ProgramPoint& point) {
  const std::uint32_t columns = sides_[0].request->columns;
  if (columns != sides_[1].request->columns)
    fail(ErrorKind::kTensorMemory, point,
         fmt::format("tcgen05.alloc.cta_group::2 of {} columns by {} and of {} by {}", columns,
                     name_of(*sides_[0].cta), sides_[1].request->columns, name_of(*sides_[1].cta)),
         fmt::format("  {}\n  {}", sides_[0].request->point.describe(), sides_[1].request->point.describe()));
  const std::optional<std::uint32_t> first =
      TensorMemory::common_fit(sides_[0].memory().memory(), sides_[1].memory().memory(), columns);
  if (!first) return;
  for (Side& side : sides_) {
    CtaTensorMemory& state = side.memory();
    state.memory().take(state.owner(), *first, columns);
    state.sm().allocate({0xff, *first, *first + columns});
    side.request->granted = first;
  }
  allocations_.push_back({*first, columns, ++last_serial_, {}, {}});
}

// --- dealloc

TensorPair::Allocation* TensorPair::find(std::uint64_t serial) {
  const auto found = std::find_if(allocations_.begin(), allocations_.end(),
                                  [&](const Allocation& a) { return a.serial == serial; });
  return found == allocations_.end() ? nullptr : &*found;
}

// Throws unless both memories' columns may go, as far as the warp knows.
void TensorPair::check_free(Warp& warp, const Allocation& allocation, const ProgramPoint& point) const {
  const std::size_t side = side_of(warp.cta());
  if (!knows(warp, allocation.complete[side ^ 1]))
    fail(ErrorKind::kTensorMemory, point,
         fmt::format("tcgen05.dealloc.cta_group::2, and nothing says that the peer, {}, has completed its "
                     "tcgen05.alloc of these columns",
                     name_of(*sides_[side ^ 1].cta)));
  const TensorStrand& strand = sides_[side].memory().warp(warp.index()).strand;
  const TensorRegion region{0xff, allocation.first_column, allocation.first_column + allocation.columns};
  sides_[side].memory().sm().check_free(region, "tcgen05.dealloc", strand, point);
  sides_[side ^ 1].memory().sm().check_free(region, "the peer's tcgen05.dealloc", strand, point);
}

std::unique_ptr<Wait> TensorPair::deallocate(Warp& warp, TensorAddress address, std::uint32_t columns,
                                             const ProgramPoint& point) {
  const std::size_t side = side_of(warp.cta());
  const Side& own = sides_[side];
  own.memory().memory().check_allocation(own.cta, address, columns, point);
  Allocation& allocation = *std::find_if(allocations_.begin(), allocations_.end(), [&](const Allocation& a) {
    return a.first_column == address.column;
  });
  if (allocation.freed[side])
    fail_at(ErrorKind::kTensorMemory, point, address.bits(),
            fmt::format("a second tcgen05.dealloc of {} columns at {:#010x} by this CTA", columns,
                        address.bits()),
            fmt::format("  the first: {}", allocation.freed[side]->describe()));
  if (warp.clock != nullptr) check_free(warp, allocation, point);
  allocation.freed[side] = point;
  if (!allocation.freed[side ^ 1]) {
    for (const Side& s : sides_) s.memory().memory().begin_giving_back(s.cta, address.column, point);
    return std::make_unique<DeallocateWait>(*this, side, allocation.serial);
  }
  for (const Side& s : sides_) s.memory().memory().give_back(s.cta, address.column);
  std::erase_if(allocations_, [&](const Allocation& a) { return a.first_column == address.column; });
  return nullptr;
}

// --- relinquish_alloc_permit

std::unique_ptr<Wait> TensorPair::relinquish(Warp& warp, const ProgramPoint& point) {
  const std::size_t side = side_of(warp.cta());
  Side& own = sides_[side];
  if (!own.relinquished) own.relinquished = point;
  own.memory().memory().relinquish(own.cta);
  if (sides_[side ^ 1].relinquished) return nullptr;
  return std::make_unique<RelinquishWait>(*this, side);
}

// --- The pairs of a cluster

TensorPair& TensorPairs::of(Cta& cta, const ProgramPoint& point) {
  const std::uint32_t even = cta.rank() & ~1u;
  pairs_.resize((std::size_t{cluster_.size()} + 1) / 2);
  std::unique_ptr<TensorPair>& pair = pairs_[even / 2];
  pair_peer(cta, point);
  if (!pair) pair = std::make_unique<TensorPair>(*cluster_.cta(even), *cluster_.cta(even + 1));
  return *pair;
}

}  // namespace jfa::simulator
