#include "simulator/tensor_core/tensor_commit.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/async/mbarrier.h"
#include "simulator/tensor_core/tensor_memory_state.h"

namespace jfa::simulator {
namespace {

class CommitOperation : public AsyncOperation {
 public:
  CommitOperation(ProgramPoint issue, TensorTickets tickets, std::vector<SharedPlace> barriers,
                  VectorClock clock)
      : AsyncOperation(issue),
        tickets_(std::move(tickets)),
        barriers_(std::move(barriers)),
        clock_(std::move(clock)) {
    for (const auto& ticket : tickets_) {
      flights_.insert(flights_.end(), ticket->flights.begin(), ticket->flights.end());
    }
  }

  bool ready() const override { return all_done(tickets_); }

  bool advance(Machine& machine) override {
    const SharedPlace place = barriers_.back();
    barriers_.pop_back();
    if (place.cta->exited()) {
      if (!machine.config().options.commit_waits || !machine.checks()) return barriers_.empty();
      fail(ErrorKind::kBarrier, issue(), "tcgen05.commit signals an mbarrier of a CTA that has exited");
    }
    Mbarrier& barrier = place.cta->extension<Mbarriers>().at(place.offset, issue());
    barrier.release_on_observation(flights_);
    barrier.arriving().join(clock_);
    barrier.note_commit(issue());
    barrier.arrive(1, issue());
    return barriers_.empty();
  }

  std::string describe() const override {
    const auto open =
        std::count_if(tickets_.begin(), tickets_.end(), [](const auto& ticket) { return !ticket->done; });
    return fmt::format("tcgen05.commit on shared {:#x}, {} of {} operations still to complete",
                       barriers_.back().offset, open, tickets_.size());
  }

 private:
  TensorTickets tickets_;
  std::vector<SharedPlace> barriers_;
  VectorClock clock_;  // of the thread, with its operations complete
  std::vector<FlightRef> flights_;
};

}  // namespace

void issue_commit(Warp& warp, int thread, std::vector<SharedPlace> barriers, const ProgramPoint& point) {
  auto& state = warp.cta().extension<CtaTensorMemory>();
  auto& tickets = state.tickets(thread);
  // Whoever observes this commit has observed all that went before it, so only what nobody has waited for
  // counts.
  std::erase_if(tickets, [](const std::shared_ptr<TensorTicket>& ticket) {
    return ticket->done && (ticket->memory == nullptr || !ticket->memory->in_flight(ticket->accumulator));
  });
  state.sm().fence_before(state.warp(warp.index()).strand);
  VectorClock clock;
  // It is no release of what the thread has written or knows, but with its operations that is over.
  warp.release(LaneMask{1} << thread % kWarpSize, clock);
  clock.hide();
  const Epoch event = state.last_issue(thread);
  if (event.tick != 0) clock.see(event.strand, event.tick);
  warp.machine().post(
      std::make_unique<CommitOperation>(point, tickets, std::move(barriers), std::move(clock)));
}

}  // namespace jfa::simulator
