// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/runtime_folder.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "host_driver/discovery/local_socket.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/discovery/example_card.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

// A variable of the environment, for as long as this exists.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) const { value != nullptr ? ::setenv(name_, value, 1) : ::unsetenv(name_); }
  const char* name_;
  std::optional<std::string> before_;
};

class RuntimeFolders : public testing::Test {
 protected:
  fs::path path() const { return temporary_.path() / "run"; }
  RuntimeFolder open() const { return value_or_throw(RuntimeFolder::open(path())); }
  std::string refusal() const {
    const auto opened = RuntimeFolder::open(path());
    return opened ? "not refused" : describe(opened.error());
  }
  // A process that takes a card and ends without letting go of it; its pid.
  pid_t broker_that_died(const std::string& name) const {
    const pid_t child = ::fork();
    if (child == 0) {
      auto folder = RuntimeFolder::open(path());
      auto card = folder->create_card(name);
      const bool good =
          card && card->write_description(test::example_card(name)) && listen_in(card->descriptor(), kSocketName);
      ::_exit(good ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);  // bounded: the child does one thing and leaves
    EXPECT_EQ(status, 0);
    return child;
  }
  static std::vector<std::string> names(const RuntimeFolder& folder) {
    std::vector<std::string> names;
    for (const auto& card : value_or_throw(folder.cards())) names.push_back(card.name);
    return names;
  }

  qemu::test::TemporaryFolder temporary_;
};

// ---- where it is, and whose -----------------------------------------------------------------------------------------

TEST_F(RuntimeFolders, VariableThenSessionThenTemporary) {
  const Variable own(kRuntimeFolderVariable, "/own");
  const Variable session("XDG_RUNTIME_DIR", "/session");
  EXPECT_EQ(RuntimeFolder::default_path(), "/own");
  const Variable no_own(kRuntimeFolderVariable, nullptr);
  EXPECT_EQ(RuntimeFolder::default_path(), "/session/spyre");
  const Variable empty_session("XDG_RUNTIME_DIR", "");
  EXPECT_EQ(RuntimeFolder::default_path(), "/tmp/spyre-" + std::to_string(::geteuid()));
}

TEST_F(RuntimeFolders, IsMadeForItsUserAlone) {
  const auto folder = open();
  struct stat info{};
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  EXPECT_EQ(info.st_uid, ::geteuid());
}

TEST_F(RuntimeFolders, LinkIsRefused) {
  fs::create_directory(temporary_.path() / "elsewhere");
  fs::create_symlink(temporary_.path() / "elsewhere", path());
  EXPECT_THAT(refusal(), HasSubstr("is a symbolic link"));
}

TEST_F(RuntimeFolders, OpenToOthersIsRefused) {
  ASSERT_EQ(::mkdir(path().c_str(), 0700), 0);
  for (const mode_t mode : {0701u, 0720u, 0755u, 0770u, 0777u}) {
    ASSERT_EQ(::chmod(path().c_str(), mode), 0);
    EXPECT_THAT(refusal(), HasSubstr("is open to others")) << std::oct << mode;
  }
}

TEST_F(RuntimeFolders, ACardIsSharedWithAGroupForReadingOnly) {
  auto folder = open();
  auto card = value_or_throw(folder.create_card("card0"));
  ASSERT_TRUE(card.share_with(::getegid()));
  value_or_throw(card.write_description(test::example_card("card0")));
  const auto mode_of = [&](const fs::path& file) {
    struct stat info{};
    EXPECT_EQ(::lstat(file.c_str(), &info), 0) << file;
    return info.st_mode & 07777u;
  };
  EXPECT_EQ(mode_of(path()), 0750u);
  EXPECT_EQ(mode_of(card.path()), 0750u);
  EXPECT_EQ(mode_of(card.path() / "card.json"), 0640u);
  EXPECT_EQ(mode_of(card.path() / "lock"), 0640u);
  ASSERT_TRUE(listen_in(card.descriptor(), kSocketName, ::getegid()));
  ASSERT_TRUE(listen_in(card.descriptor(), kManagementSocketName));
  EXPECT_EQ(mode_of(card.path() / kSocketName), 0660u);
  EXPECT_EQ(mode_of(card.path() / kManagementSocketName), 0600u);
  EXPECT_EQ(value_or_throw(RuntimeFolder::open(path())).cards()->size(), 1u) << "its own user still uses the folder";
}

TEST_F(RuntimeFolders, SomebodyElsesIsRefused) {
  // The root folder is somebody else's, unless we are root: then any folder can be given away.
  fs::path theirs = "/";
  if (::geteuid() == 0) {
    theirs = path();
    ASSERT_EQ(::mkdir(theirs.c_str(), 0700), 0);
    ASSERT_EQ(::chown(theirs.c_str(), 12345, 12345), 0);
  }
  const auto opened = RuntimeFolder::open(theirs);
  ASSERT_FALSE(opened);
  EXPECT_THAT(describe(opened.error()), HasSubstr("belongs to user"));
  EXPECT_THAT(opened.error().next_step, HasSubstr(kRuntimeFolderVariable));
}

TEST_F(RuntimeFolders, FileInItsPlaceOrNoParentIsRefused) {
  std::ofstream(path()) << "a file";
  EXPECT_THAT(refusal(), HasSubstr("cannot be opened"));
  EXPECT_FALSE(RuntimeFolder::open(temporary_.path() / "no" / "parent"));
}

// ---- names ----------------------------------------------------------------------------------------------------------

TEST_F(RuntimeFolders, NamesAreShortAndPlain) {
  const std::string longest(kMaxCardName, 'x');
  for (const std::string good : {"card0", "A", "0", "_", "_a-B9", longest.c_str()}) {
    EXPECT_TRUE(check_card_name(good)) << good;
  }
  const std::string nul("a\0b", 3);
  for (const std::string& bad :
       {std::string(), longest + "x", std::string("a/b"), std::string(".."), std::string("."), std::string("a b"),
        std::string("-"), std::string("-x"), nul, std::string("k\xc3\xa4rtchen"), std::string("a\n")}) {
    EXPECT_FALSE(check_card_name(bad)) << bad;
    EXPECT_FALSE(open().create_card(bad)) << bad;
  }
}

TEST_F(RuntimeFolders, CardIsNamedByNameOrByPath) {
  const Variable own(kRuntimeFolderVariable, "/own");
  EXPECT_EQ(value_or_throw(card_path("card0")), "/own/card0");
  EXPECT_EQ(value_or_throw(card_path("/x/.exec-1/card0")), "/x/.exec-1/card0");
  EXPECT_FALSE(card_path("no such name"));
}

TEST_F(RuntimeFolders, NameInUseIsRefusedWithThePidThatHoldsIt) {
  const auto folder = open();
  const auto card = value_or_throw(folder.create_card("card0"));
  const auto again = folder.create_card("card0");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().source, "card0");
  EXPECT_THAT(again.error().message, HasSubstr("in use by process " + std::to_string(::getpid())));
}

TEST_F(RuntimeFolders, AtMostEightCards) {
  const auto folder = open();
  std::vector<CardFolder> cards;
  for (unsigned i = 0; i < kMaxCards; ++i)
    cards.push_back(value_or_throw(folder.create_card("card" + std::to_string(i))));
  const auto one_more = folder.create_card("one-more");
  ASSERT_FALSE(one_more);
  EXPECT_THAT(one_more.error().message, HasSubstr("there are 8 cards already"));
  EXPECT_FALSE(fs::exists(path() / "one-more"));
  cards.pop_back();
  EXPECT_TRUE(folder.create_card("one-more"));
}

// ---- begin and end -------------------------------------------------------------------------------------------------

TEST_F(RuntimeFolders, CardsAreListedByNameOnceTheyAreDescribed) {
  const auto folder = open();
  const auto b = value_or_throw(folder.create_card("b"));
  const auto a = value_or_throw(folder.create_card("a"));
  EXPECT_THAT(names(folder), ElementsAre());  // both are booting
  ASSERT_TRUE(b.write_description(test::example_card("b")));
  ASSERT_TRUE(a.write_description(test::example_card("a")));
  EXPECT_THAT(names(folder), ElementsAre("a", "b"));
}

TEST_F(RuntimeFolders, CardFolderEndsWithItsOwner) {
  const auto folder = open();
  {
    const auto card = value_or_throw(folder.create_card("card0"));
    ASSERT_TRUE(card.write_description(test::example_card()));
    EXPECT_TRUE(listen_in(card.descriptor(), kSocketName));
    std::ofstream(card.path() / kConsoleName) << "post 0x01\n";
  }
  EXPECT_TRUE(fs::is_empty(path()));
}

TEST_F(RuntimeFolders, CardOfABrokerThatDiedIsRemovedByWhoeverLists) {
  const auto folder = open();
  broker_that_died("card0");
  EXPECT_TRUE(fs::exists(path() / "card0" / "card.json"));
  EXPECT_THAT(names(folder), ElementsAre());
  EXPECT_TRUE(fs::is_empty(path()));
}

TEST_F(RuntimeFolders, CardOfABrokerThatDiedIsRemovedByWhoeverBoots) {
  const auto folder = open();
  broker_that_died("card0");
  broker_that_died("card1");
  const auto card = value_or_throw(folder.create_card("card0"));
  EXPECT_FALSE(fs::exists(card.path() / "card.json"));
  EXPECT_TRUE(listen_in(card.descriptor(), kSocketName)) << "the dead broker's socket is not in the way";
  EXPECT_FALSE(fs::exists(path() / "card1"));
}

TEST_F(RuntimeFolders, WhatIsNotOursIsLeftAlone) {
  const auto folder = open();
  fs::create_directory(path() / "notes");
  std::ofstream(path() / "notes" / "todo") << "keep";
  std::ofstream(path() / "file") << "keep";
  broker_that_died("card0");
  std::ofstream(path() / "card0" / "mine") << "keep";
  EXPECT_THAT(names(folder), ElementsAre());
  EXPECT_TRUE(fs::exists(path() / "notes" / "todo"));
  EXPECT_TRUE(fs::exists(path() / "file"));
  EXPECT_TRUE(fs::exists(path() / "card0" / "mine"));
  EXPECT_FALSE(fs::exists(path() / "card0" / "card.json"));
}

TEST_F(RuntimeFolders, DescriptionThatCannotBeReadIsAnErrorThatNamesTheCard) {
  const auto folder = open();
  const auto card = value_or_throw(folder.create_card("card0"));
  std::ofstream(card.path() / "card.json") << "{\"name\": 1}";
  const auto cards = folder.cards();
  ASSERT_FALSE(cards);
  EXPECT_THAT(cards.error().message, HasSubstr("card0: "));
  EXPECT_EQ(cards.error().source, "card.name");
  ASSERT_TRUE(card.write_description(test::example_card("other")));
  EXPECT_FALSE(folder.cards()) << "a card that claims another's name";
}

TEST_F(RuntimeFolders, LinksInsideAreNotFollowed) {
  const auto folder = open();
  const auto card = value_or_throw(folder.create_card("card0"));
  ASSERT_TRUE(card.write_description(test::example_card()));
  fs::rename(card.path() / "card.json", temporary_.path() / "outside");
  fs::create_symlink(temporary_.path() / "outside", card.path() / "card.json");
  EXPECT_THAT(names(folder), ElementsAre());
  fs::create_directory_symlink(path() / "card0", path() / "alias");
  EXPECT_THAT(names(folder), ElementsAre());
}

TEST_F(RuntimeFolders, LongPathsHaveSocketsToo) {
  auto longer = path();
  ASSERT_EQ(::mkdir(longer.c_str(), 0700), 0);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(::mkdir((longer /= std::string(60, 'x')).c_str(), 0700), 0);
  const auto folder = value_or_throw(RuntimeFolder::open(longer));
  const auto card = value_or_throw(folder.create_card("card0"));
  const auto listener = listen_in(card.descriptor(), kSocketName);
  ASSERT_TRUE(listener) << describe(listener.error());
  const UniqueFd again{::open(card.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  EXPECT_TRUE(connect_in(again.get(), kSocketName, test_bounds::kConnection));
}

// ---- private folders ------------------------------------------------------------------------------------------------

TEST_F(RuntimeFolders, PrivateFoldersAreNeitherListedNorCounted) {
  const auto folder = open();
  {
    const auto inner = value_or_throw(folder.create_private("exec"));
    EXPECT_EQ(inner.path(), path() / (".exec-" + std::to_string(::getpid())));
    const auto card = value_or_throw(inner.create_card("card0"));
    ASSERT_TRUE(card.write_description(test::example_card()));
    EXPECT_THAT(names(inner), ElementsAre("card0"));
    EXPECT_THAT(names(folder), ElementsAre());
    EXPECT_TRUE(fs::exists(card.path())) << "it is in use";
    EXPECT_THAT(names(value_or_throw(RuntimeFolder::open(inner.path()))), ElementsAre("card0"))
        << "as a tenant opens it";
  }
  EXPECT_TRUE(fs::is_empty(path()));
}

TEST_F(RuntimeFolders, PrivateFolderOfAProcessThatDiedIsRemovedWithItsCards) {
  const auto folder = open();
  const pid_t child = ::fork();
  if (child == 0) {
    auto inner = RuntimeFolder::open(path())->create_private("exec");
    const auto card = inner->create_card("card0");
    ::_exit(card && card->write_description(test::example_card()) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);  // bounded: the child does one thing and leaves
  ASSERT_EQ(status, 0);
  EXPECT_FALSE(fs::is_empty(path()));
  EXPECT_EQ(folder.remove_stale(), 2u);
  EXPECT_TRUE(fs::is_empty(path()));
}

// Who finds a folder that somebody else is making or removing gives up after kFolderCleanUp, which decides nothing:
// that one may have had no CPU for so long. It is tried again, until somebody has the name.
Expected<CardFolder> create(const RuntimeFolder& folder, std::string_view name) {
  for (;;) {  // bounded: each thread runs sooner or later
    auto card = folder.create_card(name);
    if (card || !card.error().message.contains("by another process all the time")) return card;
  }
}

// ---- several at once ------------------------------------------------------------------------------------------------

TEST_F(RuntimeFolders, ReadersSeeOneDescriptionOrTheNextNeverAPart) {
  const auto folder = open();
  const auto card = value_or_throw(folder.create_card("card0"));
  auto small = test::example_card("card0", 0), large = test::example_card("card0", 16);
  ASSERT_TRUE(card.write_description(small));
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 300; ++i) EXPECT_TRUE(card.write_description(i % 2 == 0 ? large : small));
    done = true;
  });
  while (!done) {
    const auto cards = value_or_throw(folder.cards());
    ASSERT_EQ(cards.size(), 1u);
    EXPECT_TRUE(cards[0] == small || cards[0] == large);
  }
  writer.join();  // bounded: it writes a number of times
}

TEST_F(RuntimeFolders, OfManyWhoTakeANameExactlyOneGetsIt) {
  constexpr int kRounds = 100;
  const auto folder = open();
  for (int round = 0; round < kRounds; ++round) {
    if (round % 4 == 0) broker_that_died("card0");  // also when a stale folder is in the way
    std::atomic<int> winners{0}, refused{0}, ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        const auto mine = open();
        const auto card = create(mine, "card0");
        winners += card ? 1 : 0;
        refused += !card && card.error().message.contains("in use by process") ? 1 : 0;
        ++ready;
        // bounded: each of the three tries once
        while (ready < 3) std::this_thread::yield();  // held until all have tried
      });
    }
    for (auto& thread : threads) thread.join();  // bounded: each tries once, and three have been started
    ASSERT_EQ(winners, 1);
    ASSERT_EQ(refused, 2);
  }
}

TEST_F(RuntimeFolders, CleaningUpNeverTakesAwayWhatIsBeingMade) {
  std::atomic<bool> done{false};
  std::thread cleaner([&] {
    const auto folder = open();
    while (!done) (void)folder.remove_stale();
  });
  const auto folder = open();
  for (int i = 0; i < 500; ++i) {
    const auto card = create(folder, "card0");
    ASSERT_TRUE(card) << describe(card.error());
    ASSERT_TRUE(card->write_description(test::example_card()));
    ASSERT_THAT(names(folder), ElementsAre("card0"));
  }
  done = true;
  cleaner.join();  // bounded: the flag is set above
}

}  // namespace
}  // namespace svp
