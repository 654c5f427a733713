// A simulated device, and every kind of wrong worker: fleet_device MODE [SECONDS [HELLO_FILE]]. A trial
// takes SECONDS and its time is drawn; nothing is compiled or measured.
//
// honest, greeting (lines before the hello), dies (SIGKILL within one trial of five), and the wrong ones
// below. HELLO_FILE has the first line of a thousand devices, none of which looks at the machine.
#include <unistd.h>
#include <algorithm>
#include <csignal>

#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>

#include "tilewright/version.h"
#include "tuner/fleet/hello.h"

namespace tilewright {
namespace {

using nlohmann::json;

std::string mode;
double seconds = 0;
std::mt19937_64 draw{static_cast<uint64_t>(getpid())};

void say(const std::string& line) { std::cout << line << std::endl; }
double uniform() { return std::uniform_real_distribution<double>(0, 1)(draw); }

void pause_for(double s) { std::this_thread::sleep_for(std::chrono::duration<double>(s)); }

json trial_result() {
  const double t = mode == "forges" ? 1e-12 : 1e-3 * (0.5 + uniform());
  json result = {{"verdict", "valid"},
                 {"reason", ""},
                 {"samples", {t, t, t}},
                 {"median", t},
                 {"at_points", json::array()},
                 {"max_rel_error", 0.0},
                 {"in_full", false},
                 {"compiler", "none"},
                 {"left_out", false},
                 {"spent",
                  {{"proposing", 0.0},
                   {"building", 0.0},
                   {"reference", 0.0},
                   {"checks", 0.0},
                   {"timing", t}}}};
  if (mode == "median") result["median"] = 2 * t;
  if (mode == "negative") result["samples"] = {-t};
  if (mode == "huge") result["median"] = 1e300;
  if (mode == "types") result["samples"] = "fast";
  if (mode == "points") result["at_points"] = {t, t};
  if (mode == "verdict") result["verdict"] = "splendid";
  if (mode == "object") {
    result["object"] = {
        {"sha256", std::string(64, '0')}, {"bytes", 3}, {"data", "AAAA"}, {"cuda", ""}};
  }
  return result;
}

// The lines of wrong workers, in the place of an answer. False: an answer follows.
bool misbehaves(uint64_t lease) {
  if (mode == "garbage") say("\x01\xff{[not json");
  if (mode == "array") say("[1, 2]");
  if (mode == "empty") say(json{{"lease", lease}}.dump());
  if (mode == "lease") say(json{{"lease", lease + 1}, {"result", trial_result()}}.dump());
  if (mode == "text")
    say(json{{"lease", std::to_string(lease)}, {"result", trial_result()}}.dump());
  if (mode == "needs") say(json{{"lease", lease}, {"need", {"abc"}}}.dump());
  if (mode == "error") say(json{{"lease", lease}, {"error", "no C compiler"}}.dump());
  if (mode == "exits") _exit(3);
  if (mode == "beats") {
    for (;;) {
      say(json{{"beat", lease}}.dump());
      pause_for(0.05);
    }
  }
  if (mode == "endless") {
    for (const std::string piece(1 << 20, 'x');;) std::cout << piece << std::flush;
  }
  if (mode == "silent") pause_for(1000);
  static const std::vector<std::string> kAnswers = {"garbage", "array", "empty", "lease",
                                                    "text",    "needs", "error"};
  return std::find(kAnswers.begin(), kAnswers.end(), mode) != kAnswers.end();
}

void answer(const std::string& line) {
  const json job = json::parse(line);
  const uint64_t lease = job.at("lease");
  if (mode == "dies" && uniform() < 0.2) {
    pause_for(seconds * uniform());
    raise(SIGKILL);
  }
  if (misbehaves(lease)) return;
  pause_for(seconds);
  json result =
      job.at("kind") == "trial" ? trial_result() : json{{"index", job.at("job").at("index")}};
  say(json{{"lease", lease}, {"result", result}}.dump());
  if (mode == "twice") say(json{{"lease", lease}, {"result", result}}.dump());
}

std::string hello(const char* file) {
  if (file != nullptr) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
  }
  const Target target = Target::parse("native");
  return hello_line(hello_of_this_machine(target, target_facts(target), TILEWRIGHT_VERSION));
}

int device_main(int argc, char** argv) {
  mode = argc > 1 ? argv[1] : "honest";
  seconds = argc > 2 ? std::stod(argv[2]) : 0;
  std::string line;
  if (!std::getline(std::cin, line)) return 0;
  if (mode == "stranger") std::cerr << "Permission denied (publickey)." << std::endl;
  if (mode == "stranger") return 255;
  if (mode == "greeting") say("Welcome to build1!\n");
  json greeting = json::parse(hello(argc > 3 ? argv[3] : nullptr));
  if (mode == "old") greeting["hello"]["version"] = "0.0.1";
  if (mode == "peaks") greeting["hello"]["machine"]["one"]["f32_flops"] = "many";
  if (mode == "other") greeting["hello"]["chip"] = "Z80 (family 1 model 1)";
  say(greeting.dump());
  while (std::getline(std::cin, line)) answer(line);
  return 0;
}

}  // namespace
}  // namespace tilewright

int main(int argc, char** argv) { return tilewright::device_main(argc, argv); }
