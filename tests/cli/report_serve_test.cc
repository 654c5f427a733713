// tune-cli report --serve: what the server answers, and to whom.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ReportServe : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    const std::string command = "cd '" + dir_.string() +
                                "' && echo $$ && exec " TILEWRIGHT_BINARY_DIR
                                "/tune-cli report --serve --port 0 --quiet";
    server_ = popen(command.c_str(), "r");
    process_ = std::stoi(line());
    url_ = line();
    port_ = std::stoi(url_.substr(url_.rfind(':') + 1));
  }

  void TearDown() override {
    if (server_ != nullptr) stop();
    Cli::TearDown();
  }

  int stop() {
    kill(process_, SIGTERM);
    const int status = pclose(server_);
    server_ = nullptr;
    return status;
  }

  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }

  // Everything that the server answers to these bytes.
  std::string say(const std::string& bytes, const char* address = "127.0.0.1") const {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port_));
    inet_pton(AF_INET, address, &to.sin_addr);
    std::string answer;
    if (connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) {
      send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      std::array<char, 4096> buffer;
      ssize_t n;
      while ((n = recv(socket, buffer.data(), buffer.size(), 0)) > 0) {
        answer.append(buffer.data(), static_cast<size_t>(n));
      }
    } else {
      answer = "refused";
    }
    close(socket);
    return answer;
  }

  std::string get(const std::string& path, const std::string& host, const std::string& more = "") {
    return say("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + more +
               "\r\n");
  }

  std::string url_;

 private:
  std::string line() {
    std::array<char, 256> buffer{};
    if (fgets(buffer.data(), buffer.size(), server_) == nullptr) return "";
    std::string text = buffer.data();
    return text.substr(0, text.find('\n'));
  }

  FILE* server_ = nullptr;
  int process_ = 0, port_ = 0;
};

TEST_F(ReportServe, AnswersWithAPageThatMayRunItsOwnScriptAlone) {
  EXPECT_EQ(url_, "http://" + host() + "/");
  const std::string page = get("/", host());
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self';"));
  EXPECT_THAT(page, HasSubstr("<script src=\"/live.js\" defer></script>"));
  EXPECT_THAT(get("/live.js", host()), HasSubstr("Content-Type: text/javascript"));
  EXPECT_THAT(get("/elsewhere", host()), StartsWith("HTTP/1.1 404 "));
}

TEST_F(ReportServe, ADatabaseThatIsNotThereYetIsWaitedFor) {
  EXPECT_THAT(get("/content", host()), HasSubstr("Nothing to show yet"));
  ASSERT_EQ(run(std::string("tune --quiet --trials 2 --threads 1 ") + kSmall).code, 0);
  const std::string content = get("/content", host());
  EXPECT_THAT(content, HasSubstr("id=\"summary\""));
  EXPECT_THAT(content, Not(HasSubstr("A search is running.")));
}

TEST_F(ReportServe, ContentThatTheBrowserHasIsNotSentAgain) {
  const std::string first = get("/content", host());
  const size_t at = first.find("ETag: ") + 6;
  const std::string tag = first.substr(at, first.find("\r\n", at) - at);
  const std::string again = get("/content", host(), "If-None-Match: " + tag + "\r\n");
  EXPECT_THAT(again, StartsWith("HTTP/1.1 304 "));
  EXPECT_THAT(again, Not(HasSubstr("Nothing to show yet")));
}

TEST_F(ReportServe, OtherNamesAndMethodsAreRefused) {
  EXPECT_THAT(get("/content", "example.com"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(get("/content", "127.0.0.1"), StartsWith("HTTP/1.1 403 ")) << "another port's page";
  EXPECT_THAT(get("/content", "localhost" + host().substr(9)), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(say("DELETE / HTTP/1.1\r\nHost: " + host() + "\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 405 "));
  EXPECT_EQ(say("nonsense\r\n\r\n"), "");
  // Listens on one address of the loop alone.
  EXPECT_EQ(say("", "127.0.0.2"), "refused");
}

// A browser opens connections on which it says nothing; nobody else waits for them.
TEST_F(ReportServe, ASilentConnectionHoldsNobodyUp) {
  const int silent = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(host().substr(10))));
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  ASSERT_EQ(connect(silent, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  EXPECT_THAT(get("/", host()), StartsWith("HTTP/1.1 200 "));
  close(silent);
}

TEST_F(ReportServe, EndsInOrderAndMistakesAreNamed) {
  const Ran taken = run("report --serve --port " + host().substr(10));
  EXPECT_EQ(taken.code, 2);
  EXPECT_THAT(taken.err, HasSubstr("cannot listen on " + host()));
  EXPECT_THAT(taken.err, HasSubstr("'--port 0' takes a free one"));
  const Ran json = run("report --serve --json");
  EXPECT_EQ(json.code, 2);
  EXPECT_THAT(json.err + json.out, HasSubstr("--serve prints its address"));
  EXPECT_EQ(stop(), 0);
}

}  // namespace
}  // namespace tilewright::cli
