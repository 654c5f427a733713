// Generated C that a test compiles and calls.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tilewright::test {

// A shared object compiled from one text; the destructor removes it.
class CompiledText {
 public:
  // Throws std::runtime_error with the text where cc refuses it.
  explicit CompiledText(const std::string& code, const std::string& flags = "") {
    folder_ = std::filesystem::path(testing::TempDir()) / "tilewright_text_XXXXXX";
    if (!mkdtemp(folder_.data())) throw std::runtime_error("no folder " + folder_);
    const std::string source = folder_ + "/text.c", library = folder_ + "/text.so";
    std::ofstream(source) << "#include <stdint.h>\n" << code;
    const std::string command =
        "cc -w -O1 " + flags + " -shared -fPIC " + source + " -o " + library;
    if (std::system(command.c_str()) != 0) throw std::runtime_error(code);
    opened_ = dlopen(library.c_str(), RTLD_NOW);
    if (!opened_) throw std::runtime_error(dlerror());
  }
  ~CompiledText() {
    if (opened_) dlclose(opened_);
    std::filesystem::remove_all(folder_);
  }
  CompiledText(const CompiledText&) = delete;
  CompiledText& operator=(const CompiledText&) = delete;

  // Null where the text has no such function.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(opened_, name));
  }

 private:
  std::string folder_;
  void* opened_ = nullptr;
};

}  // namespace tilewright::test
