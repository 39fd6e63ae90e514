// SPDX-License-Identifier: Apache-2.0
// A core file holds what it was made of, the source first, and gives its record back.
#include "host_driver/debug/core_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/unit/host_driver/debug/example_elf.hpp"
#include "tests/unit/host_driver/debug/example_record.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

using testing::HasSubstr;

class CoreFileTest : public testing::Test {
 protected:
  std::filesystem::path file(const char* name) const { return folder_.path() / name; }
  ElfImage image() const {
    const auto bytes = test::example_elf();
    write("elf", bytes);
    return ElfImage::open(file("elf")).value();
  }
  void write(const char* name, std::span<const std::byte> bytes) const {
    std::ofstream(file(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::vector<char> read(const char* name) const {
    std::ifstream stream(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

 private:
  qemu::test::TemporaryFolder folder_;
};

TEST_F(CoreFileTest, OfARecordHasTheHartsThatAnsweredTheSourceFirst) {
  auto record = test::example_record();
  record.source = 1;
  const CoreFile core = core_of(test::sealed(record), image());
  ASSERT_EQ(core.harts.size(), 2u);
  EXPECT_EQ(core.harts[0].hart, 1u);
  EXPECT_EQ(core.harts[1].hart, 0u);
  EXPECT_EQ(core.harts[1].pc, record.harts[0].pc);
  EXPECT_EQ(core.harts[1].x[10], record.harts[0].x[10]);
  ASSERT_EQ(core.memory.size(), 2u) << "the image and the stack";
  EXPECT_EQ(core.memory[1].address, record.harts[1].x[2]);
  EXPECT_EQ(core.memory[1].bytes.size(), sizeof record.source_stack);
}

TEST_F(CoreFileTest, GivesItsRecordBack) {
  const auto record = test::example_record();
  ASSERT_TRUE(write_core(core_of(record, image()), file("core")));
  const auto kept = read_record(file("core"));
  ASSERT_TRUE(kept) << describe(kept.error());
  EXPECT_EQ(std::memcmp(&*kept, &record, sizeof record), 0);
  // A record alone, as it lies in memory, is one as well.
  write("record", std::as_bytes(std::span(&record, 1)));
  EXPECT_TRUE(read_record(file("record")));
}

TEST_F(CoreFileTest, ItsHeadersAreThoseOfARiscVCore) {
  ASSERT_TRUE(write_core(core_of(test::example_record(), image()), file("core")));
  const auto bytes = read("core");
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  EXPECT_EQ(header.e_type, ET_CORE);
  EXPECT_EQ(header.e_machine, EM_RISCV);
  ASSERT_EQ(header.e_phnum, 3);
  std::uint64_t end = 0;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr program;
    std::memcpy(&program, bytes.data() + header.e_phoff + i * sizeof program, sizeof program);
    EXPECT_EQ(program.p_type, i == 0 ? PT_NOTE : PT_LOAD);
    EXPECT_GE(program.p_offset, end);
    end = program.p_offset + program.p_filesz;
  }
  EXPECT_EQ(end, bytes.size());
}

TEST_F(CoreFileTest, ACoreWithoutRecordSaysSo) {
  CoreFile core = core_of(test::example_record(), image());
  core.record.reset();
  ASSERT_TRUE(write_core(core, file("core")));
  const auto record = read_record(file("core"));
  ASSERT_FALSE(record);
  EXPECT_THAT(record.error().message, HasSubstr("without a fatal record"));
}

TEST_F(CoreFileTest, AFolderThatIsNotThereIsNamed) {
  const auto written = write_core({}, "/no/such/folder/core");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("/no/such/folder/core"));
}

TEST_F(CoreFileTest, DamageIsRefusedOrReadNeverMore) {
  ASSERT_TRUE(write_core(core_of(test::example_record(), image()), file("core")));
  const auto whole = read("core");
  EXPECT_TRUE(rc::check([&] {
    auto bytes = whole;
    for (auto damage = *rc::gen::inRange(1, 8); damage > 0; --damage) {
      // Headers and the notes' own headers are what is parsed.
      bytes[*rc::gen::inRange<std::size_t>(0, 1200)] = *rc::gen::arbitrary<char>();
    }
    bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size()));
    write("damaged", std::as_bytes(std::span(bytes)));
    const auto record = read_record(file("damaged"));
    if (!record) RC_ASSERT(!record.error().message.empty());
  }));
}

}  // namespace
}  // namespace svp
