// An HTTP server for the browser of the same user on the same machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace tilewright::cli {

struct ServedAnswer {
  unsigned status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string body = {};
  std::string tag = {};  // equal for equal bodies; a browser that has this one gets none again
};

using ServeFn = std::function<ServedAnswer(const std::string& path)>;

// Boost.Beast speaks HTTP: its headers come with Boost.Context, so that no program loads one library
// more. Listens on 127.0.0.1 alone and answers GET alone. Requests whose `Host` is another name are
// refused: a page of another site that points its own name here reads nothing.
class LocalServer {
 public:
  // Port 0 takes a free one. Throws UsageError where the port is taken.
  LocalServer(uint16_t port, ServeFn serve);
  ~LocalServer();

  std::string url() const;  // "http://127.0.0.1:8750/"
  void run();               // until SIGINT or SIGTERM

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright::cli
