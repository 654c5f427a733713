// Runs tune-cli as a user does, in a folder of the test's own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace tilewright::cli {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kPatience = 60;  // seconds; a job that must time out gets less
const std::string kNoGpu = "TILEWRIGHT_CUDA_DRIVER=/no/such/libcuda.so";

struct Ran {
  int code;
  std::string out, err;
  Json json() const { return Json::parse(out); }
};

class Cli : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    dir_ = fs::temp_directory_path() / ("tune_cli_" + name + std::to_string(getpid()));
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  // tune-cli with these arguments, in the test's folder.
  Ran run(const std::string& arguments, const std::string& environment = "") {
    return shell(environment + " " TILEWRIGHT_BINARY_DIR "/tune-cli " + arguments);
  }

  // Any command, in the test's folder.
  Ran shell(const std::string& words) {
    fs::path err = dir_ / "stderr";
    std::string command =
        "cd '" + dir_.string() + "' && { " + words + "; } 2>'" + err.string() + "'";
    FILE* pipe = popen(command.c_str(), "r");
    Ran ran;
    std::array<char, 4096> buffer;
    while (size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
      ran.out.append(buffer.data(), n);
    int status = pclose(pipe);
    ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ran.err = read(err);
    return ran;
  }

  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
  }

  static std::string read(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path dir_;
};

inline constexpr const char* kSmall = "matmul:m=32,n=48,k=16";

}  // namespace tilewright::cli
