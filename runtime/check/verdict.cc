#include "runtime/check/verdict.h"

namespace tilewright {

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::Ok: return "ok";
    case Verdict::Wrong: return "wrong";
    case Verdict::OutOfBounds: return "out of bounds";
    case Verdict::Compile: return "compile";
    case Verdict::Runtime: return "runtime";
    case Verdict::Timeout: return "timeout";
  }
  return "";
}

std::optional<Verdict> parse_verdict(std::string_view name) {
  for (Verdict v : {Verdict::Ok, Verdict::Wrong, Verdict::OutOfBounds, Verdict::Compile,
                    Verdict::Runtime, Verdict::Timeout}) {
    if (name_of(v) == name) return v;
  }
  return std::nullopt;
}

}  // namespace tilewright
