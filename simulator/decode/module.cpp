// Modules: from text to entries, and their variables into device memory.
#include <fmt/format.h>

#include <cstring>
#include <map>

#include "simulator/decode/decode.h"
#include "simulator/machine/launch.h"
#include "simulator/machine/machine.h"
#include "simulator/ptx/ptx.h"

namespace jfa::simulator {

class Loader {
 public:
  Loader(const std::string& ptx, DeviceMemory& memory, const std::string& source)
      : ptx_(parse_ptx(ptx)), memory_(memory), module_(new Module) {
    module_->memory_ = &memory;
    module_->target_ = ptx_.target;
    module_->files_ = ptx_.files;
    for (std::size_t from = 0; from < source.size();) {
      const std::size_t end = std::min(source.find('\n', from), source.size());
      module_->source_lines_.push_back(source.substr(from, end - from));
      from = end + 1;
    }
  }

  std::unique_ptr<Module> load() {
    place_variables();
    const VariableAddress address = [this](std::string_view name) -> std::optional<std::uint64_t> {
      const auto it = addresses_.find(name);
      if (it == addresses_.end()) return std::nullopt;
      return it->second;
    };
    for (const Function& function : ptx_.functions) {
      if (!function.is_entry) continue;
      auto entry = std::make_unique<Entry>();
      decode_entry(ptx_, function, address, *entry);
      module_->entries_.push_back(std::move(entry));
    }
    return std::move(module_);
  }

 private:
  void place_variables() {
    for (const Variable& v : ptx_.variables) {
      if ((v.space != Space::kGlobal && v.space != Space::kConst) || v.external) continue;
      if (addresses_.contains(v.name))
        throw PtxError{v.ptx_line, fmt::format("variable `{}` is declared twice", v.name), {}};
      const std::uint64_t alignment = std::max(v.alignment, 16u);
      const std::uint64_t address = memory_.allocate(v.size_bytes, "variable " + v.name, alignment);
      addresses_[v.name] = address;
      module_->variables_.push_back(address);
    }
    for (const Variable& v : ptx_.variables) {
      const auto it = addresses_.find(v.name);
      if (it == addresses_.end()) continue;
      DeviceMemory::Allocation& a = *memory_.find(it->second, v.size_bytes);
      std::memset(a.data.get(), 0, v.size_bytes);
      if (!v.initial.empty()) std::memcpy(a.data.get(), v.initial.data(), v.initial.size());
      for (const Variable::Relocation& r : v.relocations) {
        const auto target = addresses_.find(r.symbol);
        if (target == addresses_.end())
          throw PtxError{
              v.ptx_line, fmt::format("`{}`, in the value of `{}`, has no address", r.symbol, v.name), {}};
        const std::uint64_t value = target->second + static_cast<std::uint64_t>(r.addend);
        std::memcpy(a.data.get() + r.offset, &value, sizeof value);
      }
      a.read_only = v.space == Space::kConst;
    }
  }

  PtxModule ptx_;
  DeviceMemory& memory_;
  std::unique_ptr<Module> module_;
  std::map<std::string, std::uint64_t, std::less<>> addresses_;
};

Result<std::unique_ptr<Module>> Module::load(const std::string& ptx, DeviceMemory& memory,
                                             const std::string& source) {
  try {
    return Loader(ptx, memory, source).load();
  } catch (const PtxError& e) {
    std::string message = fmt::format("PTX line {}: {}", e.line, e.message);
    if (!e.statement.empty()) message += fmt::format(" in `{}`", e.statement);
    return Status::invalid_argument(std::move(message));
  }
}

}  // namespace jfa::simulator
