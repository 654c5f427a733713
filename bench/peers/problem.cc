#include "bench/peers/problem.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

namespace tilewright::peers {

PeerSpec::PeerSpec(const std::string& json_text)
    : json_(std::make_shared<nlohmann::json>(nlohmann::json::parse(json_text))) {
  op_ = json_->at("op").get<std::string>();
}

const nlohmann::json* PeerSpec::find(const std::string& key) const {
  auto flat = json_->find(key);
  if (flat != json_->end()) return &*flat;
  size_t dot = key.find('.');
  if (dot == std::string::npos) return nullptr;
  auto outer = json_->find(key.substr(0, dot));
  if (outer == json_->end() || !outer->is_object()) return nullptr;
  auto inner = outer->find(key.substr(dot + 1));
  return inner == outer->end() ? nullptr : &*inner;
}

int64_t PeerSpec::size(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) throw Unsupported("the spec has no '" + key + "'");
  if (!value->is_number_integer()) {
    throw Unsupported("'" + key + "' is " + value->dump() + "; peers take fixed sizes");
  }
  return value->get<int64_t>();
}

int64_t PeerSpec::size(const std::string& key, int64_t fallback) const {
  return has(key) ? size(key) : fallback;
}

double PeerSpec::number(const std::string& key, double fallback) const {
  const nlohmann::json* value = find(key);
  return value == nullptr ? fallback : value->get<double>();
}

bool PeerSpec::flag(const std::string& key) const {
  const nlohmann::json* value = find(key);
  return value != nullptr && value->get<bool>();
}

std::string PeerSpec::text(const std::string& key, const std::string& fallback) const {
  const nlohmann::json* value = find(key);
  return value == nullptr ? fallback : value->get<std::string>();
}

std::vector<std::string> PeerSpec::names(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  return value->get<std::vector<std::string>>();
}

std::vector<int64_t> PeerSpec::sizes(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) throw Unsupported("the spec has no '" + key + "'");
  if (value->is_number_integer()) return {value->get<int64_t>()};
  return value->get<std::vector<int64_t>>();
}

std::vector<int64_t> PeerSpec::per_axis(const std::string& key, int axes, int64_t fallback) const {
  const nlohmann::json* value = find(key);
  std::vector<int64_t> all;
  if (value == nullptr) {
    all = {fallback};
  } else if (value->is_string()) {
    const std::string text = value->get<std::string>();
    for (size_t begin = 0; begin <= text.size();) {
      size_t end = std::min(text.find('x', begin), text.size());
      all.push_back(std::stoll(text.substr(begin, end - begin)));
      begin = end + 1;
    }
  } else {
    all = sizes(key);
  }
  if (all.size() == 1) all.resize(axes, all[0]);
  if (static_cast<int>(all.size()) != axes) {
    throw Unsupported("'" + key + "' has not one value an axis");
  }
  return all;
}

void PeerSpec::require_plain_weight() const {
  if (has("w.dtype")) throw Unsupported("no weight stored as " + text("w.dtype", ""));
  if (text("w.sparse", "none") != "none") throw Unsupported("no sparse weight");
}

bool Operands::has(const std::string& name) const {
  for (const auto& operand : list_) {
    if (name == operand.name) return true;
  }
  return false;
}

void* Operands::get(const std::string& name, int64_t bytes) const {
  for (const auto& operand : list_) {
    if (name != operand.name) continue;
    if (static_cast<int64_t>(operand.bytes) != bytes) {
      throw std::invalid_argument("operand " + name + " has " + std::to_string(operand.bytes) +
                                  " bytes; expected " + std::to_string(bytes));
    }
    return operand.data;
  }
  throw std::invalid_argument("no operand is called " + name);
}

void* prepare_guarded(Prepare prepare, const char* spec_json, int threads,
                      const TilewrightPeerOperand* operands, int count, char* reason,
                      size_t reason_size) noexcept {
  auto refuse = [&](const char* why) -> void* {
    if (reason != nullptr && reason_size > 0) std::snprintf(reason, reason_size, "%s", why);
    return nullptr;
  };
  try {
    return prepare(PeerSpec(spec_json), threads, Operands(operands, count)).release();
  } catch (const std::exception& error) {
    return refuse(error.what());
  } catch (...) {
    return refuse("unknown failure");
  }
}

TilewrightPeerImplementation implementation_of(void* problem) noexcept {
  const auto* prepared = static_cast<Problem*>(problem);
  return {prepared->implementation().c_str(), prepared->is_reference() ? 1 : 0};
}

int run_guarded(void* problem) noexcept {
  try {
    static_cast<Problem*>(problem)->run();
    return 0;
  } catch (...) {
    return 1;
  }
}

void destroy_guarded(void* problem) noexcept { delete static_cast<Problem*>(problem); }

UnpinnedThread::UnpinnedThread() : saved_(sizeof(cpu_set_t)) {
  auto* saved = reinterpret_cast<cpu_set_t*>(saved_.data());
  if (sched_getaffinity(0, sizeof(cpu_set_t), saved) != 0) CPU_ZERO(saved);
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof all);
  sched_setaffinity(0, sizeof all, &all);
}

UnpinnedThread::~UnpinnedThread() {
  auto* saved = reinterpret_cast<cpu_set_t*>(saved_.data());
  if (CPU_COUNT(saved) > 0) sched_setaffinity(0, sizeof(cpu_set_t), saved);
}

}  // namespace tilewright::peers
