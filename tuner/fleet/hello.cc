#include "tuner/fleet/hello.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "runtime/machine/cpus.h"
#include "tuner/fleet/place.h"

namespace tilewright {
namespace {

using nlohmann::json;

constexpr int kProtocol = 1;  // another one where lines of docs/fleet.md change
constexpr size_t kLongestText = 4096;
constexpr int kMostCores = 1 << 16;
constexpr int64_t kMostCache = int64_t{1} << 40;

std::string text_of(const json& j, const char* key) {
  std::string text = j.at(key);
  if (text.size() > kLongestText) throw FleetError(fmt::format("'{}' is too long", key));
  return text;
}

int64_t integer_of(const json& j, const char* key, int64_t least, int64_t most) {
  const json& value = j.at(key);
  if (!value.is_number_integer()) throw FleetError(fmt::format("'{}' is no integer", key));
  const auto number = value.get<int64_t>();
  if (number < least || number > most) throw FleetError(fmt::format("'{}' is {}", key, number));
  return number;
}

// The target is rebuilt from its name; only extensions and caches are the worker's word.
Target target_from(const json& j) {
  Target t = Target::parse(text_of(j, "name"));
  const std::vector<std::string>& known = known_cpu_features();
  for (const json& entry : j.at("extensions")) {
    const std::string extension = entry;
    if (std::ranges::find(known, extension) == known.end()) {
      throw FleetError("an unknown extension of the target");
    }
    t.extensions.insert(extension);
  }
  t.l1_bytes = integer_of(j, "l1", 1, kMostCache);
  t.l2_bytes = integer_of(j, "l2", 1, kMostCache);
  t.l3_bytes = integer_of(j, "l3", 0, kMostCache);
  return t;
}

Hello hello_from(const json& j) {
  Hello hello;
  hello.host = to_utf8(text_of(j, "host"));
  hello.cores = static_cast<int>(integer_of(j, "cores", 1, kMostCores));
  hello.target = target_from(j.at("target"));
  hello.facts = target_facts(hello.target);  // but for the chip, these follow from the target
  hello.facts.chip = to_utf8(text_of(j, "chip"));
  if (!hello.target.is_cuda()) {
    const auto machine = Machine::from_json(j.at("machine").dump());
    if (!machine) throw FleetError("'machine' has no peaks");
    hello.machine = *machine;
  } else {
    hello.facts.cores = static_cast<int>(integer_of(j, "multiprocessors", 1, kMostCores));
  }
  return hello;
}

}  // namespace

std::string opening_line(const Opening& opening) {
  const json j = {
      {"protocol", kProtocol}, {"version", opening.version}, {"target", opening.target}};
  return json{{"open", j}}.dump();
}

Opening read_opening(const std::string& line) {
  const json j = json::parse(line, nullptr, false);
  if (!j.is_object() || !j.contains("open") || !j["open"].is_object()) {
    throw FleetError("the first line is no {\"open\": ...} of 'tune-cli tune --workers'");
  }
  const json& open = j["open"];
  return {open.value("version", ""), open.value("target", "")};
}

Hello hello_of_this_machine(const Target& target, const TargetFacts& facts,
                            const std::string& version) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  Hello hello{version, host, facts, target, available_cores(), {}};
  if (!target.is_cuda()) hello.machine = probe_machine();
  return hello;
}

std::string hello_line(const Hello& hello) {
  const Target& t = hello.target;
  json j = {{"protocol", kProtocol},
            {"version", hello.version},
            {"host", hello.host},
            {"chip", hello.facts.chip},
            {"cores", hello.cores},
            {"target",
             {{"name", t.name},
              {"extensions", t.extensions},
              {"l1", t.l1_bytes},
              {"l2", t.l2_bytes},
              {"l3", t.l3_bytes}}}};
  if (t.is_cuda()) {
    j["multiprocessors"] = hello.facts.cores;
  } else {
    j["machine"] = json::parse(hello.machine.to_json());
  }
  return json{{"hello", j}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool Greeting::has(const std::string& line) {
  constexpr size_t kMostBytes = size_t{64} << 10;
  return !line.starts_with('{') && (bytes_ += line.size()) <= kMostBytes;
}

Hello read_hello(const std::string& line, const Opening& opening) {
  const json j = json::parse(line, nullptr, false);
  if (j.is_object() && j.contains("error") && j["error"].is_string()) {
    throw FleetError(to_utf8(j["error"].get<std::string>().substr(0, kLongestText)));
  }
  if (!j.is_object() || !j.contains("hello") || !j["hello"].is_object()) {
    throw FleetError(fmt::format("its first line is no hello: '{}'", to_utf8(line.substr(0, 100))));
  }
  try {
    const json& hello = j["hello"];
    const std::string version = text_of(hello, "version");
    if (version != opening.version || hello.at("protocol") != kProtocol) {
      throw FleetError(fmt::format("tune-cli is version {} there, this is {}: install the same",
                                   to_utf8(version), opening.version));
    }
    Hello read = hello_from(hello);
    read.version = version;
    return read;
  } catch (const json::exception& e) {
    throw FleetError(fmt::format("its hello is malformed: {}", e.what()));
  } catch (const TargetError& e) {
    throw FleetError(fmt::format("its hello is malformed: {}", e.what()));
  }
}

}  // namespace tilewright
