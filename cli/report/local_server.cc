#include "cli/report/local_server.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <csignal>
#include <exception>
#include <utility>

#include "base/error.h"

namespace tilewright::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

constexpr auto kPatience = std::chrono::seconds(30);  // for a request, and for taking an answer
// Text from a database is escaped; the policy holds even where that failed.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:";

// One connection, kept alive by its pending operation.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(asio::io_context& io, tcp::socket socket, uint16_t port, const ServeFn& serve)
      : socket_(std::move(socket)), deadline_(io), port_(port), serve_(serve) {}

  void read() {
    request_ = {};
    be_patient();
    http::async_read(socket_, buffer_, request_,
                     [self = shared_from_this()](beast::error_code error, size_t) {
                       error ? self->end() : self->write();
                     });
  }

 private:
  // Closes the connection later. Earlier waits are given up.
  void be_patient() {
    deadline_.expires_after(kPatience);
    deadline_.async_wait([self = shared_from_this()](beast::error_code cancelled) {
      if (!cancelled) self->end();
    });
  }

  void end() {
    deadline_.cancel();
    beast::error_code closed_already;
    socket_.close(closed_already);
  }

  bool is_for_here() const {
    const auto host = request_[http::field::host];
    return host == fmt::format("127.0.0.1:{}", port_) || host == fmt::format("localhost:{}", port_);
  }

  ServedAnswer answer() const {
    if (!is_for_here()) return {403, "text/plain", "this server answers to 127.0.0.1 alone\n"};
    if (request_.method() != http::verb::get) return {405, "text/plain", "only GET is answered\n"};
    try {
      return serve_(std::string(request_.target()));
    } catch (const std::exception& e) {
      return {500, "text/plain; charset=utf-8", std::string(e.what()) + "\n"};
    }
  }

  void write() {
    ServedAnswer a = answer();
    if (!a.tag.empty() && request_[http::field::if_none_match] == a.tag) {
      a.status = 304;
      a.body.clear();
    }
    response_ = {static_cast<http::status>(a.status), request_.version()};
    response_.set(http::field::content_type, a.type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("Content-Security-Policy", kPolicy);
    response_.set("Cross-Origin-Resource-Policy", "same-origin");
    response_.set("X-Content-Type-Options", "nosniff");
    if (!a.tag.empty()) response_.set(http::field::etag, a.tag);
    response_.keep_alive(request_.keep_alive());
    response_.body() = std::move(a.body);
    response_.prepare_payload();
    http::async_write(socket_, response_,
                      [self = shared_from_this()](beast::error_code error, size_t) {
                        const bool goes_on = !error && self->response_.keep_alive();
                        goes_on ? self->read() : self->end();
                      });
  }

  // Not beast::tcp_stream, which Boost 1.66 of the image for wheels lacks.
  tcp::socket socket_;
  asio::steady_timer deadline_;
  uint16_t port_;
  const ServeFn& serve_;
  beast::flat_buffer buffer_;
  http::request<http::empty_body> request_;
  http::response<http::string_body> response_;
};

}  // namespace

struct LocalServer::Impl {
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::signal_set signals{io, SIGINT, SIGTERM};
  ServeFn serve;
  uint16_t port = 0;

  void accept() {
    acceptor.async_accept([this](beast::error_code error, tcp::socket socket) {
      if (!error) std::make_shared<Session>(io, std::move(socket), port, serve)->read();
      accept();
    });
  }
};

LocalServer::LocalServer(uint16_t port, ServeFn serve) : impl_(std::make_unique<Impl>()) {
  impl_->serve = std::move(serve);
  const tcp::endpoint here(asio::ip::address_v4::loopback(), port);
  try {
    impl_->acceptor.open(here.protocol());
    impl_->acceptor.set_option(tcp::acceptor::reuse_address(true));
    impl_->acceptor.bind(here);
    impl_->acceptor.listen();
  } catch (const boost::system::system_error& e) {
    throw UsageError(
        fmt::format("--port: cannot listen on 127.0.0.1:{}: {}; '--port 0' takes a "
                    "free one",
                    port, e.code().message()));
  }
  impl_->port = impl_->acceptor.local_endpoint().port();
}

LocalServer::~LocalServer() = default;

std::string LocalServer::url() const { return fmt::format("http://127.0.0.1:{}/", impl_->port); }

void LocalServer::run() {
  impl_->signals.async_wait([this](beast::error_code, int) { impl_->io.stop(); });
  impl_->accept();
  impl_->io.run();
}

}  // namespace tilewright::cli
