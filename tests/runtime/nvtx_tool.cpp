// A profiler in small: NVTX loads it by NVTX_INJECTION64_PATH, and it keeps a list of what it is told.
#include <nvtx3/nvToolsExt.h>

#include <mutex>
#include <string>
#include <utility>

namespace {

std::mutex mutex;
std::string story;  // "domain jfa", "push forward", "pop", a line each

void note(const std::string& line) {
  const std::lock_guard lock(mutex);
  story += line + "\n";
}

nvtxDomainHandle_t create_domain(const char* name) {
  note(std::string("domain ") + name);
  return reinterpret_cast<nvtxDomainHandle_t>(&story);  // any address will do
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  const bool ours = domain == reinterpret_cast<nvtxDomainHandle_t>(&story);
  note(std::string(ours ? "push " : "push elsewhere ") + attributes->message.ascii);
  return 0;
}

int pop(nvtxDomainHandle_t /*domain*/) {
  note("pop");
  return 0;
}

template <class Function>
void put(NvtxFunctionTable table, int slot, Function function) {
  *table[slot] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  if (size <= NVTX_CBID_CORE2_DomainCreateA) return 0;
  put(table, NVTX_CBID_CORE2_DomainCreateA, &create_domain);
  put(table, NVTX_CBID_CORE2_DomainRangePushEx, &push);
  put(table, NVTX_CBID_CORE2_DomainRangePop, &pop);
  return 1;
}

/// All that was told since the last time; valid until the next.
extern "C" const char* take_story() {
  static std::string taken;
  const std::lock_guard lock(mutex);
  taken = std::exchange(story, {});
  return taken.c_str();
}
