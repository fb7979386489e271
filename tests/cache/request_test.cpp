// Keys: every field counts, nothing else does.
#include "cache/request.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/cache/support.h"

using namespace jfa;
using jfa::test::make_request;

TEST_CASE("SHA-256 is SHA-256") {
  CHECK(sha256("").hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(Sha256().append("a").append("").append("bc").finish() == sha256("abc"));
  CHECK(parse_digest(sha256("abc").hex()) == sha256("abc"));
  CHECK_FALSE(parse_digest("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD").has_value());
  CHECK_FALSE(parse_digest("ba78").has_value());
}

TEST_CASE("a key stays what it is from release to release") {
  // If this fails the meaning of a key has changed: raise the schema version, then the expectation.
  CHECK(request_key(make_request("__global__ void f() {}")).hex() ==
        "b15af814098154fbb7beffee244a160f31230199558b73d3a48e26db1bab9a3b");
}

TEST_CASE("each field alone changes the key, and so does where a field ends") {
  const CompileRequest base = make_request("source");
  std::vector<CompileRequest> variants(9, base);
  variants[1].source += ' ';
  variants[2].target = "sm_100a";
  variants[3].options = {"-lineinfo", "-std=c++20"};
  variants[4].options = {"-std=c++20-lineinfo"};
  variants[5].options = {"-std=c++20", "-lineinfo", ""};
  variants[6].options = {};
  variants[7].options = {"-std=c++2", "0-lineinfo"};
  variants[8].source.clear();
  std::set<std::string> keys;
  for (const CompileRequest& variant : variants) keys.insert(request_key(variant).hex());
  CHECK(keys.size() == variants.size());
}

TEST_CASE("names and commands for people do not change the key") {
  const CompileRequest base = make_request("source", "one name");
  CompileRequest other = make_request("source", "another name");
  other.precompile_command = "make it otherwise";
  CHECK(request_key(base) == request_key(other));
}

TEST_CASE("bug-pool 84: requests that differ in one compiler option have different keys [cpu]") {
  std::set<std::string> keys;
  for (const char* option : {"-maxrregcount=128", "-maxrregcount=168", "-maxrregcount=255"}) {
    CompileRequest request = make_request("kernel");
    request.options.push_back(option);
    keys.insert(request_key(request).hex());
  }
  for (const char* constant : {"constexpr int kWarps = 4;", "constexpr int kWarps = 8;",
                               "constexpr int kStages = 3;", "constexpr int kClusterSize = 2;"}) {
    keys.insert(request_key(make_request(constant)).hex());
  }
  CHECK(keys.size() == 7);
}

TEST_CASE("bug-pool 69: a request that reads files which the key does not cover is refused [cpu]") {
  for (const char* source :
       {"#include \"device.h\"\n", "int a;\n  #  include <cuda_fp16.h>\nint b;", "#import \"x\""}) {
    const Status status = check_self_contained(make_request(source));
    CHECK(status.kind() == ErrorKind::kInvalidArgument);
    CHECK(status.message().find("cache key does not cover") != std::string::npos);
  }
  for (const char* option :
       {"-I/usr/include", "--include-path=x", "-include=x.h", "--pre-include=x.h", "--use-pch=x"}) {
    CompileRequest request = make_request("int a;");
    request.options.push_back(option);
    const Status status = check_self_contained(request);
    CHECK(status.kind() == ErrorKind::kInvalidArgument);
    CHECK(status.message().find(option) != std::string::npos);
  }
  CHECK(check_self_contained(make_request("// #include is not used\n#define include_nothing\nint a;")).ok());
}

TEST_CASE("explanations print every hashed field, and their difference names what differs") {
  CompileRequest left = make_request("source");
  CompileRequest right = left;
  right.target = "sm_103a";
  right.options.push_back("-G");
  const std::string text = to_text(explain(left, test::kCompiler));
  for (const char* part : {"name: forward-test\n", "target: sm_100f\n", "option[0]: -std=c++20\n",
                           "option[1]: -lineinfo\n", "compiler: build-id:0123abcd\n", "source_bytes: 6\n"}) {
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK(text.find(request_key(left).hex()) != std::string::npos);
  const auto lines = difference(explain(left, "a"), explain(right, "b"));
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].starts_with("request: "));
  CHECK(lines[1] == "target: sm_100f -> sm_103a");
  CHECK(lines[2] == "compiler: a -> b");
  CHECK(lines[3] == "option[2]: (absent) -> -G");
  CHECK(difference(explain(left, "a"), explain(left, "a")).empty());
}
