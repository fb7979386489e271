#include "simulator/tensor_core/tensor_memory_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace jfa::simulator {
namespace {

struct MachineTensorState : Extension {
  explicit MachineTensorState(Machine&) {}
  std::uint64_t last_order = 0;
};

// Keeps the orders of products apart from other families' queues.
constexpr std::uint64_t kOrderTag = std::uint64_t{1} << 63;

// Whether the tensor core does what was issued earlier first; two products only in their own order.
bool precedes(TensorOperation earlier, TensorOperation later) {
  switch (later) {
    case TensorOperation::kProduct:
      return earlier != TensorOperation::kProduct;
    case TensorOperation::kCopy:
    case TensorOperation::kShift:
      return earlier == TensorOperation::kProduct;
    case TensorOperation::kRefresh:
      return earlier == TensorOperation::kProduct || earlier == TensorOperation::kShift;
  }
  return false;
}

}  // namespace

bool all_done(const TensorTickets& tickets) {
  return std::all_of(tickets.begin(), tickets.end(), [](const auto& ticket) { return ticket->done; });
}

SmTensorMemory::SmTensorMemory(Sm& sm) : memory(sm.machine().checks()), sm_(sm) {
  for (Observer* observer : sm.machine().observers())
    if (auto watch = observer->add_tensor_memory(sm)) observers_.push_back(std::move(watch));
}

FlightRef SmTensorMemory::issue(MemoryAccess access, const TensorRegion& region, const char* what,
                                const TensorStrand& strand, TensorOrder order, const ProgramPoint& point) {
  if (observers_.empty()) return {};
  ++last_flight_;
  for (const auto& observer : observers_)
    observer->issue(last_flight_, access, region, what, strand, order, point);
  return {this, last_flight_};
}

void SmTensorMemory::end_flight(FlightId id, const Epoch& event) {
  if (id == 0) return;
  for (const auto& observer : observers_) observer->end_flight(id, event);
}

bool SmTensorMemory::in_flight(FlightId id) const {
  return std::any_of(observers_.begin(), observers_.end(),
                     [&](const auto& observer) { return observer->in_flight(id); });
}

void SmTensorMemory::allocate(const TensorRegion& region) {
  for (const auto& observer : observers_) observer->allocate(region);
}

void SmTensorMemory::check_free(const TensorRegion& region, const char* what, const TensorStrand& strand,
                                const ProgramPoint& point) const {
  for (const auto& observer : observers_) observer->free(region, what, strand, point);
}

void SmTensorMemory::fence_before(TensorStrand& strand) {
  for (const auto& observer : observers_) observer->fence_before(strand);
}

void SmTensorMemory::fence_after(TensorStrand& strand, const Warp& warp, LaneMask lanes) {
  for (const auto& observer : observers_) observer->fence_after(strand, &warp, lanes);
}

TensorOrder SmTensorMemory::order(std::uint32_t address, std::uint32_t shape_bits, int cta_group) {
  TensorOrder& order = orders_[{address, shape_bits, cta_group}];
  if (order == 0) order = kOrderTag | ++sm_.machine().extension<MachineTensorState>().last_order;
  return order;
}

CtaTensorMemory::CtaTensorMemory(Cta& cta)
    : cta_(cta),
      sm_(cta.sm().extension<SmTensorMemory>()),
      warps_(static_cast<std::size_t>((cta.threads() + kWarpSize - 1) / kWarpSize)),
      waits_(warps_.size()) {
  for (std::size_t i = 0; i < warps_.size(); ++i) warps_[i].strand.warp = static_cast<int>(i);
}

void CtaTensorMemory::begin_write(TensorTicket& ticket, const TensorRegion& region, const char* what,
                                  const TensorStrand& strand, TensorOrder order, const ProgramPoint& point) {
  memory().check_allocated(owner(), region, what, point);
  const FlightRef flight = sm_.issue(MemoryAccess::kWrite, region, what, strand, order, point);
  ticket.memory = &sm_;
  ticket.accumulator = flight.id;
  if (flight.owner != nullptr) ticket.flights.push_back(flight);
}

TensorTickets CtaTensorMemory::issue(int thread, const std::shared_ptr<TensorTicket>& ticket) {
  TensorTickets predecessors;
  for (const auto& [issuer, tickets] : tickets_)
    for (const auto& earlier : tickets)
      if (!earlier->done && precedes(earlier->operation, ticket->operation)) predecessors.push_back(earlier);
  tickets_[thread].push_back(ticket);
  if (!cta_.machine().checks()) return predecessors;
  Epoch& event = events_[thread];
  if (event.strand == 0)
    event.strand = cta_.cluster().order.add_tensor_strand(
        fmt::format("tensor operations issued by warp {}", thread / kWarpSize));
  ++event.tick;
  for (FlightRef& flight : ticket->flights) flight.event = event;
  return predecessors;
}

Epoch CtaTensorMemory::wait(Warp& warp) {
  if (warp.clock == nullptr) return {};
  Epoch& event = waits_[static_cast<std::size_t>(warp.index())];
  if (event.strand == 0)
    event.strand = cta_.cluster().order.add_tensor_strand(
        fmt::format("tensor loads and stores of warp {}", warp.index()));
  ++event.tick;
  warp.acquire(warp.live(), event);
  return event;
}

void CtaTensorMemory::on_exit() { memory().release(owner(), {nullptr, &cta_, -1, -1}); }

Cta& pair_peer(Cta& cta, const ProgramPoint& point) {
  Cta* peer = cta.cluster().cta(cta.rank() ^ 1);
  if (peer == nullptr) {
    fail(ErrorKind::kInvalidOperand, point,
         fmt::format("cta_group::2 in a cluster of {} CTAs: rank {} has no peer", cta.cluster().size(),
                     cta.rank()));
  }
  if (peer->exited()) fail(ErrorKind::kInvalidOperand, point, "cta_group::2, but the peer CTA has exited");
  return *peer;
}

std::vector<Cta*> ctas_of_group(Cta& cta, int cta_group, const ProgramPoint& point) {
  if (cta_group == 1) return {&cta};
  return {&cta, &pair_peer(cta, point)};
}

}  // namespace jfa::simulator
