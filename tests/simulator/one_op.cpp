#include "tests/simulator/one_op.h"

#include <doctest/doctest.h>

#include <cstring>

namespace jfa::simulator::test {
namespace {

template <class T>
void append(std::vector<std::byte>& parameters, T value) {
  const std::size_t at = (parameters.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T);
  parameters.resize(at + sizeof(T));
  std::memcpy(parameters.data() + at, &value, sizeof value);
}

constexpr const char* kNames[] = {"%a", "%b", "%c", "%e"};

std::string op_text(const std::string& code, int result_bits, const std::vector<Column>& columns) {
  std::string text =
      ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry op(.param .u64 out, .param .u32 n";
  for (std::size_t k = 0; k < columns.size(); ++k) text += ", .param .u64 in" + std::to_string(k);
  text +=
      ")\n{\n.reg .b32 %index, %count, %block, %threads; .reg .b64 %address, %base; .reg .pred %past, %p, "
      "%q; .reg .b32 %t<4>;\n";
  for (std::size_t k = 0; k < columns.size(); ++k)
    text += ".reg .b" + std::to_string(columns[k].bits) + " " + kNames[k] + ";\n";
  text += ".reg .b" + std::to_string(result_bits == 1 ? 32 : result_bits) + " %d;\n";
  text +=
      "mov.u32 %index, %tid.x; mov.u32 %block, %ctaid.x; mov.u32 %threads, %ntid.x;\n"
      "mad.lo.u32 %index, %block, %threads, %index;\n"
      "ld.param.u32 %count, [n];\nsetp.ge.u32 %past, %index, %count;\n@%past ret;\n";
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const std::string bits = std::to_string(columns[k].bits), bytes = std::to_string(columns[k].bits / 8);
    text += "ld.param.u64 %base, [in" + std::to_string(k) + "];\nmad.wide.u32 %address, %index, " + bytes +
            ", %base;\nld.global.b" + bits + " " + kNames[k] + ", [%address];\n";
  }
  text += code + "\n";
  if (result_bits == 1) text += "selp.b32 %d, 1, 0, %p;\n";
  text += "ld.param.u64 %base, [out];\nmad.wide.u32 %address, %index, " +
          std::to_string((result_bits == 1 ? 32 : result_bits) / 8) + ", %base;\nst.global.b" +
          std::to_string(result_bits == 1 ? 32 : result_bits) + " [%address], %d;\nret;\n}\n";
  return text;
}

}  // namespace

Column u16s(std::vector<std::uint64_t> values) { return {16, std::move(values)}; }
Column u32s(std::vector<std::uint64_t> values) { return {32, std::move(values)}; }
Column u64s(std::vector<std::uint64_t> values) { return {64, std::move(values)}; }
Column f32s(const std::vector<float>& values) {
  Column c{32, {}};
  for (const float v : values) c.values.push_back(std::bit_cast<std::uint32_t>(v));
  return c;
}
Column f64s(const std::vector<double>& values) {
  Column c{64, {}};
  for (const double v : values) c.values.push_back(std::bit_cast<std::uint64_t>(v));
  return c;
}

std::vector<std::uint64_t> run_op(const std::string& code, int result_bits,
                                  const std::vector<Column>& columns) {
  const std::size_t rows = columns.at(0).values.size();
  const std::size_t result_bytes = static_cast<std::size_t>(result_bits == 1 ? 32 : result_bits) / 8;
  DeviceMemory memory;
  auto module = Module::load(op_text(code, result_bits, columns), memory);
  INFO(code);
  REQUIRE_MESSAGE(module.ok(), module.status().message());
  LaunchConfig config;
  const std::uint64_t out = memory.allocate(rows * result_bytes, "out");
  append(config.parameters, out);
  append(config.parameters, static_cast<std::uint32_t>(rows));
  for (const Column& c : columns) {
    const std::size_t bytes = static_cast<std::size_t>(c.bits) / 8;
    const std::uint64_t in = memory.allocate(rows * bytes, "in");
    REQUIRE(c.values.size() == rows);
    for (std::size_t i = 0; i < rows; ++i)
      std::memcpy(memory.host(in + i * bytes, bytes), &c.values[i], bytes);
    append(config.parameters, in);
  }
  config.block.x = 64;
  config.grid.x = static_cast<std::uint32_t>((rows + 63) / 64);
  const LaunchResult result = run_grid(**module, *(*module)->entries()[0], config, memory);
  REQUIRE_MESSAGE(result.ok, result.report.text());
  std::vector<std::uint64_t> values(rows);
  for (std::size_t i = 0; i < rows; ++i)
    std::memcpy(&values[i], memory.host(out + i * result_bytes, result_bytes), result_bytes);
  return values;
}

std::vector<std::uint32_t> run_op32(const std::string& code, const std::vector<Column>& columns) {
  const auto raw = run_op(code, 32, columns);
  return {raw.begin(), raw.end()};
}
std::vector<float> run_f32(const std::string& code, const std::vector<Column>& columns) {
  std::vector<float> values;
  for (const std::uint64_t raw : run_op(code, 32, columns))
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(raw)));
  return values;
}
std::vector<double> run_f64(const std::string& code, const std::vector<Column>& columns) {
  std::vector<double> values;
  for (const std::uint64_t raw : run_op(code, 64, columns)) values.push_back(std::bit_cast<double>(raw));
  return values;
}

std::string kernel_text(const std::string& body, const std::string& module_level,
                        const std::string& directives) {
  return ".version 9.0\n.target sm_100a\n.address_size 64\n" + module_level +
         "\n.visible .entry kernel(.param .u64 result) " + directives +
         "\n{\n.reg .b32 %r<32>; .reg .b64 %rd<16>, %out; .reg .pred %p<8>; .reg .f32 %f<16>;\n"
         "ld.param.u64 %out, [result];\n" +
         body + "\n}\n";
}

Run run_kernel(const std::string& ptx, std::size_t words, const RunShape& shape) {
  Run run;
  DeviceMemory memory;
  auto module = Module::load(ptx, memory);
  if (!module.ok()) {
    run.load_error = module.status().message();
    run.result.ok = false;
    return run;
  }
  const std::uint64_t out = memory.allocate(words * 4, "output");
  std::memset(memory.host(out, words * 4), 0, words * 4);
  LaunchConfig config;
  config.grid = shape.grid;
  config.block = shape.block;
  config.cluster = shape.cluster;
  config.dynamic_shared_bytes = shape.dynamic_shared_bytes;
  config.options = shape.options;
  append(config.parameters, out);
  run.result = run_grid(**module, *(*module)->find("kernel"), config, memory);
  run.output.resize(words);
  std::memcpy(run.output.data(), memory.host(out, words * 4), words * 4);
  return run;
}

}  // namespace jfa::simulator::test
