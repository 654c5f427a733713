#include "tuner/fleet/place.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>
#include <string_view>

namespace tilewright {
namespace {

constexpr int kMostWorkers = 10'000;

[[noreturn]] void refuse_place(const std::string& text, const std::string& why) {
  throw FleetError(fmt::format("--workers '{}': {}; expected {}", text, why, kPlaceForms));
}

int worker_count(const std::string& text, std::string_view digits) {
  int count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc() || end != digits.data() + digits.size() || count < 1 ||
      count > kMostWorkers) {
    refuse_place(text, fmt::format("'{}' is no number from 1 to {}", digits, kMostWorkers));
  }
  return count;
}

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

std::vector<Place> same_places(const std::string& name, int count,
                               const std::vector<std::string>& command) {
  std::vector<Place> places;
  for (int i = 1; i <= count; ++i) {
    places.push_back({count == 1 ? name : fmt::format("{} #{}", name, i), command});
  }
  return places;
}

// A job step has one standard input for all its tasks, so each worker becomes a step of one task: the
// number of tasks is taken out of the options.
std::vector<Place> slurm_places(const std::string& text, const std::string& options) {
  std::vector<std::string> command = {"srun", "--ntasks=1", "--quiet", "--unbuffered"};
  int count = 1;
  const std::vector<std::string> words = split_at(options, ' ');
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-n" || word == "--ntasks") {
      if (++i == words.size()) refuse_place(text, word + " has no number");
      count = worker_count(text, words[i]);
    } else if (word.starts_with("--ntasks=")) {
      count = worker_count(text, std::string_view(word).substr(word.find('=') + 1));
    } else if (word.starts_with("-n") && word.size() > 2) {
      count = worker_count(text, std::string_view(word).substr(2));
    } else {
      command.push_back(word);
    }
  }
  command.insert(command.end(), {"tune-cli", "worker"});
  return same_places(text, count, command);
}

std::vector<Place> ssh_places(const std::string& text, const std::string& hosts) {
  std::vector<Place> places;
  for (const std::string& host : split_at(hosts, ',')) {
    if (host.starts_with('-')) refuse_place(text, fmt::format("'{}' is no host", host));
    // Nobody is there to answer a question for a password.
    places.push_back({"ssh:" + host,
                      {"ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "--",
                       host, "tune-cli worker"}});
  }
  return places;
}

}  // namespace

std::vector<Place> parse_places(const std::string& text, const std::string& self) {
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  std::vector<Place> places;
  if (kind == "local") {
    places = same_places(text, worker_count(text, rest), {self, "worker"});
  } else if (kind == "ssh") {
    places = ssh_places(text, rest);
  } else if (kind == "srun") {
    places = slurm_places(text, rest);
  } else if (kind == "ray") {
    places = same_places(text, rest.empty() ? 1 : worker_count(text, rest),
                         {"python3", "-m", "tilewright.ray"});
  } else if (kind == "command" && !rest.empty()) {
    places = {{text, {"/bin/sh", "-c", rest}}};
  } else {
    refuse_place(text, fmt::format("'{}' is no kind of worker", kind));
  }
  if (places.empty()) refuse_place(text, "it names no host");
  return places;
}

}  // namespace tilewright
