// A database of somebody else's, whose kernels leave a mark wherever they are loaded or run: in no
// command does one, however the database came here.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "database/store.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ForgedDatabase : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    ASSERT_EQ(run(std::string("tune --quiet --trials 3 --threads 1 --db own.db ") + kSmall).code,
              0);
    fs::copy_file(dir_ / "own.db", dir_ / "forged.db");
    forge(dir_ / "forged.db");
    write_matrix("a.npy", 32, 16);
    write_matrix("b.npy", 16, 48);
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

  database::Blob marking_object(const Json& description) {
    std::string code = "#include <stdio.h>\nstatic int mark(void) { FILE* f = fopen(\"" +
                       mark().string() +
                       "\", \"w\"); if (f) fclose(f); return 0; }\n"
                       "__attribute__((constructor)) static void loaded(void) { mark(); }\n";
    code +=
        "int " + description["main"]["symbol"].get<std::string>() + "(void) { return mark(); }\n";
    for (const Json& pack : description["packs"]) {
      code += "int " + pack["symbol"].get<std::string>() + "(void) { return mark(); }\n";
    }
    std::ofstream(dir_ / "mark.c") << code;
    EXPECT_EQ(shell("cc -shared -fPIC -o mark.so mark.c").code, 0);
    const std::string bytes = read(dir_ / "mark.so");
    auto* first = reinterpret_cast<const std::byte*>(bytes.data());
    return {first, first + bytes.size()};
  }

  fs::path mark() const { return dir_ / "mark"; }

  // Every command that reads kernels. None of them runs what the file brought.
  void expect_no_mark(const std::string& db) {
    const std::string spec = kSmall;
    for (const std::string& command : std::vector<std::string>{
             "replay --threads 1 " + spec, "replay --threads 1 --require " + spec, kRun + spec,
             "bench --threads 1 " + spec, "export --threads 1 -o out " + spec,
             "export --threads 1 --shared -o out " + spec, "report -o report.html",
             "explain --threads 1 " + spec, "best --threads 1 " + spec,
             "show --threads 1 --source " + spec, "db info", "db check", "db export rows.jsonl",
             "db export --serve serve.db",
             "tune --quiet --trials 3 --threads 1 --resume " + spec}) {
      const Ran ran = run(command + " --db " + db);
      EXPECT_FALSE(fs::exists(mark())) << command << "\n" << ran.out << ran.err;
      EXPECT_LT(ran.code, 100) << command << "\n" << ran.err;
      EXPECT_NE(ran.code, 2) << "is no such command: " << command << "\n" << ran.err;
      fs::remove(mark());
    }
    EXPECT_EQ(run("replay --threads 1 --db serve.db " + spec).code, 0);
    EXPECT_FALSE(fs::exists(mark()));
  }

  std::string miss(const std::string& db, const std::string& options = "") {
    const Ran ran = run("replay --json --threads 1 --db " + db + " " + kSmall + " " + options);
    if (ran.code != 0) return "";  // it was loaded: a kernel that computes nothing is no miss
    return ran.json()["results"][0].value("miss", "");
  }
};

TEST_F(ForgedDatabase, RunsWhereItIsTheUsersOwn) {
  EXPECT_EQ(miss("forged.db"), "") << "or this test finds no fault anywhere";
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
  const Ran ran = run("db merge --json --rebuild forged.db --db new.db");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_GE(ran.json()["rebuilt"]["kernels"], 1);
  EXPECT_FALSE(fs::exists(mark()));
  const Ran replayed =
      run(std::string("replay --json --require --threads 1 --db new.db ") + kSmall);
  EXPECT_EQ(replayed.code, 0) << replayed.err;
  EXPECT_EQ(replayed.json()["results"][0]["checked"], true);
  expect_no_mark("new.db");
  // All that could be made is there: another time makes none.
  EXPECT_EQ(run("db merge --json --rebuild --db new.db").json()["rebuilt"]["kernels"], 0);
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
