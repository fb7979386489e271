// What is told of every call, on a fake driver: the record of JFA_VERBOSE=2, and NVTX ranges.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "jfa/log.h"
#include "runtime/watchers.h"
#include "tests/runtime/forward_support.h"

using namespace jfa;
using test::call_of;
using test::kAddress;
using test::kStream;
using test::output_of;
using test::warm_device;
using test::workspace_for;

namespace {

// NVTX looks for its tool when the first device is attached.
const int kTool = setenv("NVTX_INJECTION64_PATH", JFA_NVTX_TOOL, 1);

std::string take_story() {
  static void* const tool = dlopen(JFA_NVTX_TOOL, RTLD_NOW);
  REQUIRE(tool != nullptr);
  return reinterpret_cast<const char* (*)()>(dlsym(tool, "take_story"))();
}

// The records that `level` gives while it lives.
class Records {
 public:
  explicit Records(LogLevel level) {
    const Status status = set_log_callback(
        [this](LogLevel of, std::string_view message) {
          const std::lock_guard lock(mutex_);
          if (of > LogLevel::kNotice) lines_.emplace_back(message);
        },
        level);
    REQUIRE(status.ok());
  }
  ~Records() { (void)set_log_callback({}); }
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char letter : line) {
    if (letter == ',')
      fields.emplace_back();
    else
      fields.back() += letter;
  }
  return fields;
}

}  // namespace

TEST_CASE("a traced call is one record: what ran, on what, how much it moves, how long the host took") {
  Device device = warm_device();
  const AttentionCall call = call_of();
  const Workspace workspace = workspace_for(device, call);
  const Records records(LogLevel::kTrace);
  REQUIRE(forward(device, call, output_of(call), kAddress * 7, workspace, kStream).ok());
  REQUIRE(records.lines().size() == 1);
  const std::vector<std::string> fields = fields_of(records.lines()[0]);
  REQUIRE(fields.size() == 17);
  const std::vector<std::string> expected{"jfa_verbose", "1",       "exec",
                                          "cuda:0",      "forward", "forward-bf16-d32-g4-sm_100f"};
  CHECK(std::vector<std::string>(fields.begin(), fields.begin() + 6) == expected);
  CHECK(fields[6].size() == 16);
  CHECK(fields[6].find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(fields[7] == "jfa_prepare+jfa_forward");
  CHECK(fields[8] == "3");
  CHECK(fields[9] == "300");
  CHECK(fields[10] == "500");
  CHECK(fields[11] == "8");
  CHECK(fields[12] == "2");
  CHECK(fields[13] == "24");
  // Query and output, key and value, LSE, 4 offsets of 8 bytes and 4 of 4.
  CHECK(fields[14] == fmt::format("{}", 2 * (300 * 8 * 24 * 2) + 2 * (500 * 2 * 24 * 2) + 300 * 8 * 4 + 48));
  CHECK(std::stod(fields[15]) > 0);
  CHECK(fields[16] == "ok");
}

TEST_CASE("a traced backward names its entries and counts all gradients") {
  Device device = warm_device();
  const AttentionCall call = call_of();
  const Tensor output = output_of(call);
  Tensor query_grad = call.query, key_grad = call.key, value_grad = call.value;
  query_grad.address = kAddress * 8;
  key_grad.address = kAddress * 9;
  value_grad.address = kAddress * 10;
  OutputGradient expanded = OutputGradient::of(output);
  expanded.address = kAddress * 11;
  expanded.row_stride = expanded.head_stride = expanded.dim_stride = 0;
  const Records records(LogLevel::kTrace);
  const Status status = backward(device, call, output, kAddress * 7, expanded, 0, query_grad, key_grad,
                                 value_grad, {}, kStream);
  REQUIRE_MESSAGE(status.ok(), status.message());
  REQUIRE(!records.lines().empty());
  const std::vector<std::string> fields = fields_of(records.lines().back());
  REQUIRE(fields.size() == 17);
  CHECK(fields[4] == "backward");
  CHECK(fields[7] ==
        "jfa_prepare_backward+jfa_delta+jfa_backward_short+jfa_backward_two_cta+jfa_backward_keys+jfa_"
        "backward_queries");
  const int query_bytes = 300 * 8 * 24 * 2, key_bytes = 500 * 2 * 24 * 2;
  // One element of output gradient, which all others are.
  CHECK(fields[14] == fmt::format("{}", 3 * query_bytes + 4 * key_bytes + 300 * 8 * 4 + 48 + 2));
}

TEST_CASE("a call that is refused, and one with nothing to compute, have a record too") {
  Device device = warm_device();
  AttentionCall call = call_of();
  const Records records(LogLevel::kTrace);
  call.scale = std::numeric_limits<double>::infinity();
  const Status refused = forward(device, call, output_of(call), 0, {}, kStream);
  REQUIRE_FALSE(refused.ok());
  call = call_of(0);
  REQUIRE(forward(device, call, output_of(call), 0, {}, kStream).ok());
  REQUIRE(records.lines().size() == 2);
  const std::string& first = records.lines()[0];
  CHECK(first.starts_with("jfa_verbose,1,exec,cuda:0,forward,,,,0,0,0,0,0,0,0,"));
  CHECK(first.ends_with(",invalid argument: " + refused.message()));
  const std::vector<std::string> fields = fields_of(records.lines()[1]);
  REQUIRE(fields.size() == 17);
  CHECK(fields[5] == "forward-bf16-d32-g4-sm_100f");
  CHECK(fields[6].empty());
  CHECK(fields[7].empty());
  CHECK(fields[16] == "ok");
}

TEST_CASE("a comma in a field does not make two of it") {
  test::reset_fake_driver();
  const Records records(LogLevel::kInfo);
  test::attach_fake_device(ImageKind::kCubin, "cuda:0,\n1");
  REQUIRE(records.lines().size() == 1);
  CHECK(records.lines()[0].starts_with("jfa_verbose,1,device,cuda:0; 1,"));
  CHECK(fields_of(records.lines()[0]).size() == 7);
}

TEST_CASE("who hears that a kernel was loaded may use it at once") {
  test::reset_fake_driver();
  Device device = test::attach_fake_device();
  const AttentionCall call = call_of();
  Status inner = Status::internal("not called");
  const Status set = set_log_callback(
      [&](LogLevel, std::string_view message) {
        if (message.starts_with("jfa_verbose,1,load,"))
          inner = forward(device, call, output_of(call), 0, {}, kStream);
      },
      LogLevel::kInfo);
  REQUIRE(set.ok());
  const Status outer = forward(device, call, output_of(call), 0, {}, kStream);
  (void)set_log_callback({});
  CHECK(outer.ok());
  CHECK_MESSAGE(inner.ok(), inner.message());
}

TEST_CASE("who does not trace, hears of no call, and nothing is looked at for it") {
  Device device = warm_device();
  const AttentionCall call = call_of();
  const Workspace workspace = workspace_for(device, call);
  for (const LogLevel level : {LogLevel::kWarning, LogLevel::kInfo}) {
    const Records records(level);
    CHECK((call_watchers & kTraceWatcher) == 0);
    REQUIRE(forward(device, call, output_of(call), 0, workspace, kStream).ok());
    CHECK(records.lines().empty());
  }
  {
    const Records records(LogLevel::kTrace);
    CHECK((call_watchers & kTraceWatcher) != 0);
  }
  CHECK((call_watchers & kTraceWatcher) == 0);
}

TEST_CASE("a tool sees a range around every call, and one around its launches, in a domain of our own") {
  test::reset_fake_driver();
  Device device = test::attach_fake_device();
  const AttentionCall call = call_of();
  AttentionCall bad = call;
  bad.query.heads = 3;
  REQUIRE_FALSE(forward(device, bad, output_of(call), 0, {}, kStream).ok());
  CHECK(take_story().ends_with("push forward\npop\n"));  // the domain is named once a process, maybe just now
  REQUIRE(forward(device, call, output_of(call), 0, {}, kStream).ok());
  const std::string kernel = "forward-bf16-d32-g4-sm_100f";
  const std::string warm = "push forward\npush " + kernel + "\npop\npop\n";
  CHECK(take_story() == "push forward\npush load " + kernel + "\npop\npush " + kernel + "\npop\npop\n");
  REQUIRE(forward(device, call, output_of(call), 0, {}, kStream).ok());
  REQUIRE(forward(device, call, output_of(call), 0, {}, kStream).ok());
  CHECK(take_story() == warm + warm);
}
