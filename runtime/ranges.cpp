#include "runtime/ranges.h"

#include <nvtx3/nvToolsExt.h>

#include <atomic>

#include "runtime/watchers.h"

namespace jfa {
namespace {

std::atomic<nvtxDomainHandle_t> domain{nullptr};

}  // namespace

void open_ranges() {
  static const bool once = [] {
    domain = nvtxDomainCreateA("jfa");  // null without a tool
    set_call_watcher(kRangeWatcher, domain != nullptr);
    return true;
  }();
  (void)once;
}

void Range::push(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain.load(std::memory_order_acquire), &attributes);
}

void Range::pop() { nvtxDomainRangePop(domain.load(std::memory_order_acquire)); }

}  // namespace jfa
