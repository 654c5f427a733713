#include "schedule/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/ceil_div.h"
#include "base/error.h"
#include "schedule/error.h"

namespace tilewright {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Answer& answer) {
  return std::visit([](const auto& value) { return Json(value); }, answer);
}

bool is_number(const Json& value) {
  bool too_large = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
  return value.is_number_integer() && !too_large;
}

Answers parse_config(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw ScheduleError(RefusalKind::BadArgument, "trial",
                        fmt::format("a config is a JSON object of answers, got: {}", text));
  }
  Answers answers;
  for (const auto& [name, value] : json.items()) {
    if (is_number(value)) {
      answers[name] = value.get<int64_t>();
    } else if (value.is_string()) {
      answers[name] = value.get<std::string>();
    } else if (value.is_array() && std::all_of(value.begin(), value.end(), is_number)) {
      answers[name] = value.get<std::vector<int64_t>>();
    } else {
      throw ScheduleError(RefusalKind::BadArgument, "trial",
                          fmt::format("the answer '{}' of a config is a number, a word or a list "
                                      "of numbers, got {}",
                                      name, value.dump()));
    }
  }
  return answers;
}

std::string options_text(const std::vector<Answer>& options) {
  std::string text;
  for (size_t i = 0; i < options.size() && i < 12; ++i) {
    text += (i ? ", " : "") + to_json(options[i]).dump();
  }
  return options.size() > 12 ? text + fmt::format(", … ({} in all)", options.size()) : text;
}

template <class T>
std::vector<Answer> answers_of(const std::vector<T>& options) {
  return {options.begin(), options.end()};
}

// A name in the choices of Trial::with: "C.tile", ".tile", ".tile?".
struct GivenName {
  explicit GivenName(std::string_view given) : is_optional(given.ends_with('?')), text(given) {
    if (is_optional) text.remove_suffix(1);
  }
  bool names(std::string_view knob) const {
    return knob == text || (text.starts_with('.') && knob.ends_with(text));
  }
  // The longer of two that name a knob counts; among equals, the one without '?'.
  bool precedes(const GivenName& other) const {
    if (text.size() != other.text.size()) return text.size() > other.text.size();
    return !is_optional && other.is_optional;
  }

  bool is_optional;
  std::string_view text;
};

void add_factorizations(int64_t extent, int parts, const SplitOptions& o,
                        std::vector<int64_t>& head, std::vector<std::vector<int64_t>>& out) {
  if (parts == 1) {
    if (extent > o.innermost_max || extent % o.innermost_multiple_of != 0) return;
    out.push_back(head);
    out.back().push_back(extent);
    return;
  }
  for (int64_t f = 1; f <= extent; ++f) {
    if (extent % f != 0) continue;
    head.push_back(f);
    add_factorizations(extent / f, parts - 1, o, head, out);
    head.pop_back();
  }
}

}  // namespace

uint64_t Rng::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

uint64_t Rng::below(uint64_t n) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
}

double Rng::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

Trial Trial::random(uint64_t seed) { return Trial(Mode::Random, seed); }
Trial Trial::first() { return Trial(Mode::First, 0); }

Trial Trial::replay(const std::string& config) {
  Trial t(Mode::Replay, 0);
  t.base_ = parse_config(config);
  return t;
}

Trial Trial::with(const std::string& config) {
  Trial t(Mode::With, 0);
  t.base_ = parse_config(config);
  return t;
}

Trial Trial::mutate(const std::string& base, double rate, uint64_t seed) {
  Trial t(Mode::Mutate, seed);
  t.base_ = parse_config(base);
  t.rate_ = rate;
  return t;
}

Trial Trial::crossover(const std::string& a, const std::string& b, uint64_t seed) {
  Trial t(Mode::Mutate, seed);
  t.base_ = parse_config(a);
  t.other_ = parse_config(b);
  return t;
}

int64_t Trial::choose(const std::string& name, const std::vector<int64_t>& options) {
  return std::get<int64_t>(ask(name, answers_of(options)));
}

std::string Trial::choose(const std::string& name, const std::vector<std::string>& options) {
  return std::get<std::string>(ask(name, answers_of(options)));
}

std::vector<int64_t> Trial::split(const std::string& name, int64_t extent, int parts,
                                  const SplitOptions& options) {
  return std::get<std::vector<int64_t>>(
      ask(name, answers_of(factorizations(extent, parts, options))));
}

const Answer& Trial::ask(const std::string& name, std::vector<Answer> options) {
  for (const Decision& d : decisions_) {
    TW_ASSERT(d.name != name, "a sketch asks '" + name + "' twice");
  }
  if (options.empty()) {
    throw ScheduleError(RefusalKind::BadArgument, "trial",
                        fmt::format("there is no possible answer to '{}'", name));
  }
  size_t chosen = pick(name, options);
  decisions_.push_back({name, std::move(options), chosen});
  return decisions_.back().options[chosen];
}

// The choice for the knob: under its name, or under the longest ending of it.
Answers::const_iterator Trial::given(const Answers& from, const std::string& name) const {
  if (mode_ != Mode::With) return from.find(name);
  auto found = from.end();
  for (auto it = from.begin(); it != from.end(); ++it) {
    const GivenName given(it->first);
    if (!given.names(name)) continue;
    if (found == from.end() || given.precedes(GivenName(found->first))) found = it;
  }
  return found;
}

size_t Trial::pick(const std::string& name, const std::vector<Answer>& options) {
  if (mode_ == Mode::First) return 0;
  if (mode_ == Mode::Random) return rng_.below(options.size());
  const Answers& from = !other_.empty() && rng_.uniform() < 0.5 ? other_ : base_;
  auto answer = given(from, name);
  auto it = answer == from.end() ? options.end()
                                 : std::find(options.begin(), options.end(), answer->second);
  if (mode_ == Mode::With && answer == from.end()) return 0;
  const bool must_fit = mode_ == Mode::Replay || mode_ == Mode::With;
  if (must_fit && it == options.end()) {
    throw ScheduleError(
        RefusalKind::BadArgument, "trial",
        fmt::format("the config answers '{}' with {}; the options are {}", name,
                    answer == from.end() ? "nothing" : to_json(answer->second).dump(),
                    options_text(options)));
  }
  if (must_fit) return it - options.begin();
  if (it == options.end()) return rng_.below(options.size());
  size_t at = it - options.begin();
  return rng_.uniform() < rate_ ? pick_near(options, at) : at;
}

size_t Trial::pick_near(const std::vector<Answer>& options, size_t from) {
  if (!std::holds_alternative<int64_t>(options[from]) || rng_.uniform() < 0.5) {
    return rng_.below(options.size());
  }
  // Sketches list the preferred option first, so neighbours are found by value, not by position.
  int64_t value = std::get<int64_t>(options[from]);
  bool up = rng_.uniform() < 0.5;
  size_t best = from;
  for (size_t i = 0; i < options.size(); ++i) {
    int64_t v = std::get<int64_t>(options[i]), b = std::get<int64_t>(options[best]);
    bool beyond = up ? v > value : v < value;
    if (beyond && (best == from || (up ? v < b : v > b))) best = i;
  }
  return best;
}

std::string Trial::config() const {
  Json json = Json::object();
  for (const Decision& d : decisions_) json[d.name] = to_json(d.options[d.chosen]);
  return json.dump();
}

void Trial::require_all_asked() const {
  if (mode_ != Mode::Replay && mode_ != Mode::With) return;
  std::vector<std::string> asked;
  for (const Decision& d : decisions_) asked.push_back(d.name);
  for (const auto& given_answer : base_) {
    const std::string& name = given_answer.first;
    const GivenName given(name);
    const bool is_asked = std::any_of(asked.begin(), asked.end(), [&](const std::string& knob) {
      return mode_ == Mode::With ? given.names(knob) : knob == name;
    });
    if (is_asked || (mode_ == Mode::With && given.is_optional)) continue;
    throw ScheduleError(
        RefusalKind::BadArgument, "trial",
        fmt::format("the config answers '{}', which the sketch does not ask; it asks: {}", name,
                    asked.empty() ? "nothing" : fmt::format("{}", fmt::join(asked, ", "))));
  }
}

namespace {

// How many places two lists differ in.
size_t differing(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  size_t count = a.size() == b.size() ? 0 : a.size() + b.size();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

// How many of the decision's other numbers lie between the chosen one and this one.
size_t numbers_between(const Decision& d, int64_t from, int64_t to) {
  return std::ranges::count_if(d.options, [&](const Answer& option) {
    const auto v = std::get<int64_t>(option);
    return v > std::min(from, to) && v < std::max(from, to);
  });
}

bool is_near(const Decision& d, const Answer& option) {
  const Answer& own = d.options[d.chosen];
  if (option == own || option.index() != own.index()) return false;
  if (option == d.options[0]) return true;
  if (auto* number = std::get_if<int64_t>(&option)) {
    return numbers_between(d, std::get<int64_t>(own), *number) < 2;
  }
  auto* factors = std::get_if<std::vector<int64_t>>(&option);
  return !factors || differing(*factors, std::get<std::vector<int64_t>>(own)) <= 2;
}

}  // namespace

size_t changed_choices(const Trial& trial) {
  return static_cast<size_t>(
      std::ranges::count_if(trial.decisions(), [](const Decision& d) { return d.chosen != 0; }));
}

std::vector<std::string> single_changes(const Trial& trial) {
  Json json = Json::parse(trial.config());
  std::vector<std::string> configs;
  for (const Decision& d : trial.decisions()) {
    for (const Answer& option : d.options) {
      if (!is_near(d, option)) continue;
      json[d.name] = to_json(option);
      configs.push_back(json.dump());
    }
    json[d.name] = to_json(d.options[d.chosen]);
  }
  return configs;
}

std::vector<std::vector<int64_t>> factorizations(int64_t extent, int parts,
                                                 const SplitOptions& options) {
  std::vector<std::vector<int64_t>> result;
  std::vector<int64_t> head;
  int64_t unit = std::max<int64_t>(1, options.innermost_multiple_of);
  int64_t first = round_up(extent, unit);
  int64_t last = std::max(
      first, static_cast<int64_t>(static_cast<double>(extent) * (1 + options.most_padding)));
  for (int64_t e = first; e <= last && result.size() < 4; e += unit) {
    add_factorizations(e, parts, options, head, result);
  }
  return result;
}

}  // namespace tilewright
