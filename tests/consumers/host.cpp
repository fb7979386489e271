// A host with libraries of its own under the names of those that jfa is made of: it links only if jfa keeps
// its copies to itself, and jfa's messages are right only if jfa does not call the host's.
#include "host.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

FMT_BEGIN_NAMESPACE
std::string vformat(string_view, format_args) { return "the host's fmt"; }
FMT_END_NAMESPACE

extern "C" {
int SHA256_Init(void*) { return 0; }
int SHA256_Update(void*, const void*, std::size_t) { return 0; }
int SHA256_Final(unsigned char*, void*) { return 0; }
unsigned int OPENSSL_ia32cap_P[4] = {};
const char* ZSTD_versionString() { return "the host's zstd"; }
}

std::string host_text() { return fmt::vformat("{}", fmt::make_format_args("")); }
std::string host_json() { return nlohmann::json{{"host", 1.5}}.dump(); }
