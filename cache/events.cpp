#include "cache/events.h"

namespace jfa {

std::string to_string(CacheEvent::Kind kind) {
  using Kind = CacheEvent::Kind;
  switch (kind) {
    case Kind::kHit:
      return "hit";
    case Kind::kMiss:
      return "miss";
    case Kind::kWait:
      return "wait";
    case Kind::kCompileStart:
      return "compile start";
    case Kind::kCompileSlow:
      return "compile slow";
    case Kind::kCompileEnd:
      return "compile end";
    case Kind::kPublish:
      return "publish";
    case Kind::kEvict:
      return "evict";
    case Kind::kDamage:
      return "damage";
    case Kind::kDegrade:
      return "degrade";
  }
  return "?";
}

}  // namespace jfa
