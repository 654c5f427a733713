// A database of somebody else's, whose kernels leave a mark wherever they are loaded or run: in no
// command does one, however the database came here.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "database/store.h"
#include "tests/cli/help_texts.h"
#include "tests/cli/models/onnx_file.h"

namespace tilewright::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ForgedDatabase : public HelpTexts {
 protected:
  void SetUp() override {
    HelpTexts::SetUp();
    ASSERT_EQ(run(std::string("tune --quiet --trials 3 --threads 1 --db own.db ") + kSmall).code,
              0);
    fs::copy_file(dir_ / "own.db", dir_ / "forged.db");
    forge(dir_ / "forged.db");
    write_matrix("a.npy", 32, 16);
    write_matrix("b.npy", 16, 48);
    test::OnnxFile model;  // the same product
    model.input("A", {32, 16}).floats("B", {16, 48}, std::vector<float>(16 * 48, 1));
    model.node("MatMul", {"A", "B"}, {"C"}).output("C");
    write("m.onnx", model.bytes());
  }

  // Zeros, as NumPy writes them.
  void write_matrix(const std::string& name, int rows, int columns) const {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                         std::to_string(rows) + ", " + std::to_string(columns) + "), }";
    header.resize(117, ' ');
    std::ofstream out(dir_ / name, std::ios::binary);
    out << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << '\n'
        << std::string(static_cast<size_t>(rows * columns * 4), '\0');
  }

  const std::string kUnconfined = "TILEWRIGHT_SANDBOX=off";
  const std::string kRun = "run --in A=a.npy --in B=b.npy --out C=c.npy --threads 1 ";

  // Puts code that leaves a mark in the place of each kernel, with all hashes, checksums and origins
  // made right, and makes it the fastest.
  void forge(const fs::path& path) {
    using namespace database;
    Store store = Store::open(path, Mode::ReadWrite);
    for (Record record : store.records({.verdict = database::Verdict::Valid}).records) {
      if (record.artifact_hash.empty()) continue;
      Artifact kernel = *store.artifact(record).value;
      kernel.bytes = marking_object(Json::parse(kernel.description));
      record.artifact_hash = store.put_artifact(kernel);
      record.best_seconds = record.median_seconds = 1e-12;
      record.samples = {1e-12};
      record.confirmed = true;
      record.created = 0;
      store.insert(record);
    }
  }

  // An object that every gate but trust lets pass: it makes the file by a system call of its own, so
  // that it takes no function of a library and has nothing that runs when it is loaded.
  database::Blob marking_object(const Json& description) {
#if defined(__aarch64__)
    const std::string call =
        "register long n __asm__(\"x8\") = 56, folder __asm__(\"x0\") = -100, "
        "name __asm__(\"x1\") = (long)path, flags __asm__(\"x2\") = 0101, mode __asm__(\"x3\") = "
        "384;"
        "__asm__ volatile(\"svc 0\" : \"+r\"(folder) : \"r\"(n), \"r\"(name), \"r\"(flags), "
        "\"r\"(mode) : \"memory\");";
#else
    const std::string call =
        "long made; __asm__ volatile(\"syscall\" : \"=a\"(made) : \"a\"(85), \"D\"(path), "
        "\"S\"(384) "
        ": \"rcx\", \"r11\", \"memory\");";
#endif
    std::string code = "static int mark(void) { const char* path = \"" + mark().string() + "\"; " +
                       call + " return 0; }\n";
    code +=
        "int " + description["main"]["symbol"].get<std::string>() + "(void) { return mark(); }\n";
    for (const Json& pack : description["packs"]) {
      code += "int " + pack["symbol"].get<std::string>() + "(void) { return mark(); }\n";
    }
    std::ofstream(dir_ / "mark.c") << code;
    EXPECT_EQ(shell("cc -shared -fPIC -nostartfiles -o mark.so mark.c").code, 0);
    const std::string bytes = read(dir_ / "mark.so");
    auto* first = reinterpret_cast<const std::byte*>(bytes.data());
    return {first, first + bytes.size()};
  }

  fs::path mark() const { return dir_ / "mark"; }

  // Every command that takes a database, those that change it last.
  std::vector<std::string> commands_on(const std::string& db) const {
    const std::string spec = kSmall, with = " --db " + db;
    return {"replay --threads 1 " + spec + with,
            "replay --threads 1 --require " + spec + with,
            kRun + spec + with,
            kRun + "--no-check " + spec + with,
            "bench --threads 1 --rounds 1 " + spec + with,
            "export --threads 1 -o out " + spec + with,
            "export --threads 1 --shared -o out " + spec + with,
            "report -o report.html" + with,
            "explain --threads 1 " + spec + with,
            "best --threads 1 " + spec + with,
            "best --all" + with,
            "show --threads 1 --source " + spec + with,
            "show --threads 1 --asm --config --program " + spec + with,
            "db info" + with,
            "db check" + with,
            "db export rows.jsonl" + with,
            "db export --serve serve.db" + with,
            "db import rows.jsonl" + with,
            "db merge " + db + " --db merged.db",
            "replay --threads 1 " + spec + " --db merged.db",
            "db keygen sign.key" + with,
            "db train" + with,
            "compile m.onnx --quiet --threads 1 --trials 0 -o m.tw" + with,
            "run m.tw --in A=a.npy --out C=c.npy",
            "explain m.tw",
            "tune --quiet --trials 3 --threads 1 --resume " + spec + with,
            "tune --quiet --trials 3 --threads 1 " + spec + with,
            "db sign --key sign.key" + with,
            "db merge --rebuild" + with,
            "db prune --keep 1" + with,
            "replay --threads 1 " + spec + with};
  }

  // None of the commands runs what the file brought, also where no filter keeps kernels from it.
  void expect_no_mark(const std::string& db) {
    for (const std::string& command : commands_on(db)) {
      // compile refuses to make a model of which no kernel may run.
      const bool of_model = command.starts_with("run m.tw") || command == "explain m.tw";
      if (of_model && !fs::exists(dir_ / "m.tw")) continue;
      const Ran ran = run(command, kUnconfined);
      EXPECT_FALSE(fs::exists(mark())) << command << "\n" << ran.out << ran.err;
      EXPECT_LT(ran.code, 100) << command << "\n" << ran.err;
      EXPECT_NE(ran.code, 2) << "is no such command: " << command << "\n" << ran.err;
      fs::remove(mark());
    }
    EXPECT_EQ(run(std::string("replay --threads 1 --db serve.db ") + kSmall, kUnconfined).code, 0);
    EXPECT_FALSE(fs::exists(mark()));
  }

  std::string miss(const std::string& db, const std::string& options = "") {
    const Ran ran = run("replay --json --threads 1 --db " + db + " " + kSmall + " " + options);
    if (ran.code != 0) return "";  // it was loaded: a kernel that computes nothing is no miss
    return ran.json()["results"][0].value("miss", "");
  }
};

// The other tests look for a mark: here is what leaves one.
TEST_F(ForgedDatabase, RunsWhereItIsTheUsersOwn) {
  const std::string spec = kSmall;
  for (const std::string& command :
       {"replay --threads 1 " + spec, kRun + spec, "bench --threads 1 --rounds 1 " + spec}) {
    run(command + " --db forged.db", kUnconfined);
    EXPECT_TRUE(fs::exists(mark())) << command;
    fs::remove(mark());
  }
  EXPECT_EQ(miss("forged.db"), "");
}

TEST_F(ForgedDatabase, IsGivenToEveryCommandThatTakesADatabase) {
  const std::vector<std::string> tried = commands_on("forged.db");
  for (const auto& [command, options] : commands()) {
    if (std::find(options.begin(), options.end(), "--db") == options.end()) continue;
    EXPECT_THAT(tried, testing::Contains(testing::StartsWith(command + " ")));
  }
}

TEST_F(ForgedDatabase, ThatOthersMayWrite) {
  ASSERT_EQ(chmod((dir_ / "forged.db").c_str(), 0666), 0);
  EXPECT_THAT(miss("forged.db"), AllOf(HasSubstr("its code is not trusted"),
                                       HasSubstr("chmod go-w"), HasSubstr("--trust KEY")));
  expect_no_mark("forged.db");
}

TEST_F(ForgedDatabase, OfSomebodyElse) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may give a file away";
  ASSERT_EQ(chown((dir_ / "forged.db").c_str(), 1000, 1000), 0);
  EXPECT_THAT(miss("forged.db"), HasSubstr("belongs to user 1000"));
  expect_no_mark("forged.db");
}

TEST_F(ForgedDatabase, Merged) {
  const Ran merged = run("db merge forged.db --db new.db");
  EXPECT_EQ(merged.code, 0);
  EXPECT_THAT(merged.err, AllOf(HasSubstr("machine code made elsewhere"),
                                HasSubstr("db merge --rebuild --db new.db")));
  EXPECT_THAT(miss("new.db"), HasSubstr("came by merge from 'forged.db'"));
  expect_no_mark("new.db");
}

TEST_F(ForgedDatabase, MergedIntoOnesOwn) {
  ASSERT_EQ(run("db merge forged.db --db own.db").code, 0);
  EXPECT_EQ(miss("own.db"), "") << "one's own kernels stay";
  EXPECT_EQ(run(std::string("replay --require --threads 1 --db own.db ") + kSmall).code, 0);
  expect_no_mark("own.db");
}

TEST_F(ForgedDatabase, Imported) {
  ASSERT_EQ(run("db export rows.jsonl --db forged.db").code, 0);
  const Ran imported = run("db import rows.jsonl --db new.db");
  EXPECT_EQ(imported.code, 0);
  EXPECT_THAT(imported.err, HasSubstr("machine code made elsewhere"));
  expect_no_mark("new.db");
}

// The configs are facts: what they make here is this machine's own.
TEST_F(ForgedDatabase, Rebuilt) {
  const Ran ran = run("db merge --json --rebuild forged.db --db new.db", kUnconfined);
  EXPECT_FALSE(fs::exists(mark()));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_GE(ran.json()["rebuilt"]["kernels"], 1);
  const Ran replayed =
      run(std::string("replay --json --require --threads 1 --db new.db ") + kSmall);
  EXPECT_EQ(replayed.code, 0) << replayed.err;
  EXPECT_EQ(replayed.json()["results"][0]["checked"], true);
  // All that could be made is there: another time makes none.
  EXPECT_EQ(run("db merge --json --rebuild --db new.db").json()["rebuilt"]["kernels"], 0);
  expect_no_mark("new.db");
}

TEST_F(ForgedDatabase, SignedKernelsRunWithTheKeyAlone) {
  ASSERT_EQ(run("db keygen a.key").code, 0);
  ASSERT_EQ(run("db keygen b.key").code, 0);
  const Ran signed_now = run("db sign --json --key a.key --db own.db");
  ASSERT_EQ(signed_now.code, 0) << signed_now.err;
  EXPECT_GE(signed_now.json()["signed"], 1);
  ASSERT_EQ(run("db merge own.db --db new.db").code, 0);
  ASSERT_EQ(chmod((dir_ / "new.db").c_str(), 0666), 0);
  EXPECT_NE(miss("new.db"), "");
  EXPECT_NE(miss("new.db", "--trust b.key.pub"), "");
  EXPECT_EQ(miss("new.db", "--trust b.key.pub --trust a.key.pub"), "");
  EXPECT_EQ(miss("new.db", "--trust " + signed_now.json()["key"].get<std::string>()), "");
  EXPECT_EQ(run(kRun + "--db new.db --trust a.key.pub " + kSmall).code, 0);
  const Ran refused = run(std::string("replay --threads 1 --db new.db --trust a.key ") + kSmall);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("64 hexadecimal digits"));
}

TEST_F(ForgedDatabase, PinnedServingFilesRunWhoeverOwnsThem) {
  const Ran served = run("db export --json --serve serve.db --db own.db");
  ASSERT_EQ(served.code, 0) << served.err;
  const std::string pin = served.json()["sha256"];
  EXPECT_THAT(shell("sha256sum serve.db").out, HasSubstr(pin));
  ASSERT_EQ(chmod((dir_ / "serve.db").c_str(), 0666), 0);
  EXPECT_NE(miss("serve.db"), "");
  EXPECT_EQ(miss("serve.db", "--pin " + pin), "");
  const Ran other = run(std::string("replay --threads 1 --db serve.db ") + kSmall + " --pin " +
                        std::string(64, 'a'));
  EXPECT_EQ(other.code, 5);
  EXPECT_THAT(other.err, HasSubstr("is not the file that was pinned"));
}

TEST_F(ForgedDatabase, WhatMustNotRunIsStillKnown) {
  ASSERT_EQ(chmod((dir_ / "forged.db").c_str(), 0666), 0);
  const Json best =
      run(std::string("best --json --threads 1 --db forged.db ") + kSmall).json()["results"][0];
  EXPECT_EQ(best["hit"], false);
  EXPECT_EQ(best["seconds"], 1e-12);
  EXPECT_THAT(best["miss"].get<std::string>(), HasSubstr("its code is not trusted"));
  const Json info = run("db info --json --db forged.db").json();
  EXPECT_EQ(info["trusted"], false);
  EXPECT_EQ(info["runnable"], 0);
  const Ran tuned = run(std::string("tune --trials 2 --threads 1 --db forged.db ") + kSmall);
  EXPECT_THAT(tuned.err, HasSubstr("kernels that are stored here will not be run: "));
}

class OddDatabase : public Cli {};

TEST_F(OddDatabase, AFifoIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo((dir_ / "fifo.db").c_str(), 0600), 0);
  ASSERT_EQ(run(std::string("tune --quiet --trials 2 --threads 1 --db own.db ") + kSmall).code, 0);
  for (const std::string& command :
       {std::string("replay --db fifo.db ") + kSmall,
        std::string("tune --trials 2 --db fifo.db ") + kSmall, std::string("db info --db fifo.db"),
        std::string("db merge fifo.db --db own.db"), std::string("db merge own.db --db fifo.db")}) {
    const Ran ran = shell("timeout 20 " TILEWRIGHT_BINARY_DIR "/tune-cli " + command);
    EXPECT_EQ(ran.code, 5) << command;
    EXPECT_THAT(ran.err, HasSubstr("is a FIFO, socket or device")) << command;
  }
  const Ran served =
      shell("timeout 20 " TILEWRIGHT_BINARY_DIR "/tune-cli db export --serve fifo.db --db own.db");
  EXPECT_EQ(served.code, 5);
  EXPECT_THAT(served.err, HasSubstr("is no serving file"));
}

// A text that no output can show is passed over and reported.
TEST_F(OddDatabase, TextThatIsNotUtf8) {
  ASSERT_EQ(run(std::string("tune --quiet --trials 2 --threads 1 --db own.db ") + kSmall).code, 0);
  std::ofstream(dir_ / "spoil.py")
      << "import sqlite3\n"
         "db = sqlite3.connect('own.db')\n"
         "db.execute(\"UPDATE records SET label = CAST(x'ff61fe' AS TEXT)\")\n"
         "db.execute(\"UPDATE records SET id = CAST(x'ff' || rowid AS TEXT)\")\n"
         "db.execute(\"UPDATE targets SET chip = CAST(x'80c3' AS TEXT)\")\n"
         "db.commit()\n";
  ASSERT_EQ(shell("python3 spoil.py").code, 0);
  for (const char* command : {"db check --json", "db check", "db info --json", "db info",
                              "best --json --threads 1", "best --threads 1"}) {
    const Ran ran = run(std::string(command) + " --db own.db");
    EXPECT_TRUE(ran.code == 0 || ran.code == 5) << command << ": " << ran.code << ran.err;
    EXPECT_THAT(ran.err, Not(HasSubstr("internal fault"))) << command;
    if (std::string(command).find("--json") != std::string::npos) {
      EXPECT_NO_THROW(ran.json()) << command << "\n" << ran.out;
    }
  }
}

TEST_F(OddDatabase, AFolderThatIsReadOnly) {
  if (geteuid() != 0) GTEST_SKIP() << "needs another user to be";
  ASSERT_EQ(run(std::string("tune --quiet --trials 2 --threads 1 --db own.db ") + kSmall).code, 0);
  fs::create_directory(dir_ / "fixed");
  fs::copy_file(dir_ / "own.db", dir_ / "fixed/own.db");
  ASSERT_EQ(chown((dir_ / "fixed/own.db").c_str(), 1000, 1000), 0);
  const auto as_user = [&](const std::string& arguments) {
    return shell("setpriv --reuid 1000 --regid 1000 --clear-groups " TILEWRIGHT_BINARY_DIR
                 "/tune-cli " +
                 arguments);
  };
  if (as_user("--help").code != 0) GTEST_SKIP() << "the other user cannot start tune-cli";
  const Ran made = as_user("db import /dev/null --db fixed/new.db");
  EXPECT_EQ(made.code, 5);
  EXPECT_THAT(made.err, AllOf(HasSubstr("cannot be made: the folder 'fixed' cannot be written"),
                              HasSubstr("--db FILE")));
  const Ran written = as_user("db prune --keep 1 --db fixed/own.db");
  EXPECT_EQ(written.code, 5);
  EXPECT_THAT(written.err, AllOf(HasSubstr("cannot be written"), HasSubstr("folder 'fixed'")));
  EXPECT_EQ(as_user("db info --db fixed/own.db").code, 0);
}

}  // namespace
}  // namespace tilewright::cli
