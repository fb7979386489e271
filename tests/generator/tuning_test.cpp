// Knobs: named, in a range, part of what a kernel is filed under; what a device's kernels are tuned by is
// what they run with.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "generator/emit.h"
#include "generator/plan/family.h"
#include "runtime/compile.h"

namespace {

using namespace jfa;

KernelSpec spec_of(Target target, Pass pass, int padded_dim = 64, bool broadcast_q = false) {
  KernelSpec spec;
  spec.target = target;
  spec.pass = pass;
  spec.padded_dim = padded_dim;
  spec.broadcast_q = broadcast_q;
  return spec;
}

std::string refusal(const KernelSpec& spec, const std::string& text) {
  const Result<Tuning> tuning = parse_tuning(text);
  return tuning ? plan(spec, *tuning).status().message() : tuning.status().message();
}

}  // namespace

TEST_CASE("a tuning is text and back") {
  CHECK(parse_tuning("").value().empty());
  CHECK(to_string(parse_tuning("b=2,a=-1").value()) == "a=-1,b=2");
  CHECK(parse_tuning("a").status().message() == "tuning: 'a' is not name=value with a whole number");
  CHECK(parse_tuning("a=1,=2").status().message() == "tuning: '=2' is not name=value with a whole number");
  CHECK(parse_tuning("a=1x").status().message() == "tuning: 'a=1x' is not name=value with a whole number");
  CHECK(parse_tuning("a=1,a=1").status().message() == "tuning: 'a' is named twice");
}

TEST_CASE("an unknown knob, a value outside its range and one that does not fit are refused by name") {
  const KernelSpec forward = spec_of(Target::sm_100f, Pass::forward, 128);
  CHECK(refusal(forward, "tea=7")
            .starts_with("tuning: 'tea' is no knob of forward-bf16-d128-sm_100f; its knobs are query_stages, "
                         "key_value_stages"));
  CHECK(
      refusal(forward, "streamed_stages=2").starts_with("tuning: 'streamed_stages' is no knob of forward-"));
  CHECK(refusal(forward, "key_value_stages=1") == "tuning: key_value_stages=1 is not from 2 to 8");
  CHECK(refusal(forward, "key_value_stages=5") ==
        "forward-bf16-d128-sm_100f-key_value_stages=5: jfa_forward: shared memory 265216 bytes of 232448");
  CHECK(refusal(spec_of(Target::sm_90a, Pass::forward), "producer_registers=28") ==
        "tuning: producer_registers=28 is not from 24 to 40 in steps of 8");
  // A multiprocessor has 65536, but each thread starts with 168: for more, roles would wait for ever.
  CHECK(refusal(spec_of(Target::sm_90a, Pass::forward), "producer_registers=32") ==
        "forward-bf16-d64-sm_90a-producer_registers=32: jfa_forward: registers 65536 of the 64512 that 384 "
        "threads start with");
  CHECK(refusal(spec_of(Target::sm_90a, Pass::backward), "producer_registers=48") ==
        "backward-bf16-d64-sm_90a-producer_registers=48: jfa_backward_keys: registers 65536 of the 64512 "
        "that 384 threads start with");
  CHECK(refusal(spec_of(Target::sm_90a, Pass::forward), "producer_registers=40,consumer_registers=232")
            .empty());
}

TEST_CASE("a tuning is part of a kernel's name and key, unless it is the default") {
  const KernelSpec spec = spec_of(Target::sm_100f, Pass::forward, 128);
  const KernelSource usual = source_of(spec).value();
  const KernelSource same =
      source_of(spec, parse_tuning("key_value_stages=4,query_stages=2").value()).value();
  CHECK(same.text == usual.text);
  CHECK(same.name == usual.name);
  // Only the host reads this one.
  const KernelSource other = source_of(spec, parse_tuning("split_items=1").value()).value();
  CHECK(other.name == "forward-bf16-d128-sm_100f-split_items=1");
  CHECK(request_key(compile_request(other)) != request_key(compile_request(usual)));
  CHECK(compile_request(usual).precompile_command.starts_with("jfa precompile"));
  CHECK(compile_request(other).precompile_command.empty());
}

TEST_CASE("10.3 makes exponentials by its unit alone, and an image for it and 10.0 takes the share of 10.0") {
  const auto pairs = [](Target target) {
    return plan(spec_of(target, Pass::forward)).value().forward().polynomial_pairs;
  };
  CHECK(pairs(Target::sm_100f) == 6);
  CHECK(pairs(Target::sm_103a) == 0);
  CHECK(!pairs(Target::sm_90a));
  for (const Target target : {Target::sm_100f, Target::sm_100a, Target::sm_103a})
    CHECK(pairs(virtual_target(target)) == pairs(target));
}

TEST_CASE("every knob is described, and two values of it at least make a plan") {
  int knobs = 0;
  for (const Target target : {Target::sm_100f, Target::sm_90a}) {
    std::set<std::string> listed, described;
    for (const Knob& knob : row_of(target).family->knobs) listed.emplace(knob.name);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const bool broadcast_q : {false, true}) {
        const KernelSpec spec = spec_of(target, pass, 64, broadcast_q);
        const KernelPlan usual = plan(spec).value();
        const auto json = nlohmann::json::parse(describe(usual));
        for (const auto& knob : json.at("knobs")) {
          const std::string name = knob.at("name");
          described.insert(name);
          CHECK(knob.at("value") == knob.at("default"));
          CHECK(!knob.at("what").get<std::string>().empty());
          const int least = knob.at("least"), most = knob.at("most"), step = knob.at("step");
          int legal = 0;
          std::set<std::string> texts;
          for (const int value : {least, least + step, most - step, most}) {
            Tuning tuning{{{name, value}}};
            // What producers have more, consumers have less.
            if (name == "producer_registers") tuning.values["consumer_registers"] = 224;
            const Result<KernelPlan> tuned = plan(spec, tuning);
            if (!tuned.ok()) continue;
            ++legal;
            texts.insert(emit(*tuned).text);
          }
          CAPTURE(name);
          CHECK(legal >= 2);
          CHECK(texts.size() >= 2);
          ++knobs;
        }
      }
    }
    CHECK(described == listed);
  }
  CHECK(knobs > 40);
}
