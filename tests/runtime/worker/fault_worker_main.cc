// A worker whose jobs go wrong in every way, and whose workload is C[i] = 2 * A[i].
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "runtime/error.h"
#include "runtime/worker/jobs.h"
#include "sandbox/seccomp.h"

namespace {

using namespace tilewright;

Workload doubling(const std::string& canonical) {
  int64_t n = std::stoll(canonical);
  Buffer a = make_buffer("A", ElemType::f32, {Expr(n)});
  Buffer c = make_buffer("C", ElemType::f32, {Expr(n)});
  Var i("i");
  Workload w;
  w.op = "double";
  w.canonical = canonical;
  w.inputs = {{a, ParamRole::Input}};
  w.stages = {{c, {i}, {}, Reducer::None, load(a, {i}) * make_float(ElemType::f32, 2.0)}};
  return w;
}

std::string crash() {
  std::raise(SIGSEGV);
  return "null";
}

std::string hang() {
  for (;;) pause();
}

std::string exhaust() {
  std::vector<std::unique_ptr<char[]>> blocks;
  for (;;) {
    blocks.push_back(std::make_unique<char[]>(16 << 20));
    std::memset(blocks.back().get(), 1, 16 << 20);
  }
}

// Past the redirection, straight into the stream of replies: its descriptor is the lowest pipe.
void write_raw(const std::string& bytes) {
  for (int fd = 3; fd < 16; ++fd) {
    if (lseek(fd, 0, SEEK_CUR) < 0 && errno == ESPIPE && write(fd, nullptr, 0) == 0) {
      char probe[64];
      std::string link = "/proc/self/fd/" + std::to_string(fd);
      ssize_t length = readlink(link.c_str(), probe, sizeof probe);
      if (length > 5 && std::strncmp(probe, "pipe:", 5) == 0) {
        [[maybe_unused]] ssize_t put = write(fd, bytes.data(), bytes.size());
        return;
      }
    }
  }
}

std::string garbage() {
  write_raw("this is not a reply at all");
  return "null";
}

std::string half_reply() {
  write_raw(std::string("\x40\0\0\0{\"id\":", 10));
  _exit(0);
}

std::string chatter() {
  std::puts("printed by a kernel");
  std::fflush(stdout);
  std::fputs("complaint of a kernel\n", stderr);
  return "\"quiet\"";
}

JobHandlers handlers() {
  JobHandlers all = runtime_handlers(doubling);
  all["echo"] = [](const std::string& payload) { return payload; };
  all["pid"] = [](const std::string&) { return std::to_string(getpid()); };
  all["crash"] = [](const std::string&) { return crash(); };
  all["hang"] = [](const std::string&) { return hang(); };
  all["exhaust"] = [](const std::string&) { return exhaust(); };
  all["garbage"] = [](const std::string&) { return garbage(); };
  all["half_reply"] = [](const std::string&) { return half_reply(); };
  all["chatter"] = [](const std::string&) { return chatter(); };
  all["exit"] = [](const std::string&) -> std::string { std::exit(3); };
  all["killed"] = [](const std::string&) -> std::string {
    kill(getpid(), SIGKILL);
    return "";
  };
  all["interrupt"] = [](const std::string&) -> std::string {
    std::raise(SIGINT);
    return "\"still here\"";
  };
  all["retire"] = [](const std::string&) -> std::string {
    retire_worker();
    return std::to_string(getpid());
  };
  all["error"] = [](const std::string&) -> std::string { throw Error("a sad story"); };
  all["toolchain"] = [](const std::string&) -> std::string { throw ToolchainError("no cc"); };
  all["bug"] = [](const std::string&) -> std::string { throw std::logic_error("a bug"); };
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--confined") == 0) tilewright::confine_process();
  return tilewright::worker_main(handlers());
}
