// SPDX-License-Identifier: Apache-2.0
#include "qemu/slot.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/support/process_resources.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace qemu {
namespace {

struct Message {
  std::int64_t value = 0;
  svp::UniqueFd descriptor;
};

Message receive(int socket) {
  Message message;
  iovec part{&message.value, sizeof message.value};
  alignas(cmsghdr) unsigned char control[CMSG_SPACE(sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  EXPECT_EQ(::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT), ssize_t(sizeof message.value));
  if (const cmsghdr* rights = CMSG_FIRSTHDR(&header)) {
    int descriptor;
    std::memcpy(&descriptor, CMSG_DATA(rights), sizeof descriptor);
    message.descriptor.reset(descriptor);
  }
  return message;
}

std::vector<Message> receive_handshake(int socket) {
  std::vector<Message> messages(5);
  for (Message& message : messages) message = receive(socket);
  return messages;
}

ino_t inode(int fd) {
  struct stat status{};
  ::fstat(fd, &status);
  return status.st_ino;
}

class SlotTest : public testing::Test {
 protected:
  void SetUp() override {
    auto created = Slot::create(5, {.window_bytes = kMiB});
    ASSERT_TRUE(created);
    slot_.emplace(std::move(*created));
  }
  std::optional<Slot> slot_;
};

TEST_F(SlotTest, HandshakeFollowsTheSpecification) {
  const auto handle = slot_->handle();
  ASSERT_TRUE(handle);
  EXPECT_FALSE(slot_->handshake_read());
  const int socket = slot_->emulator_end();

  const Message version = receive(socket);
  EXPECT_EQ(version.value, 0);
  EXPECT_FALSE(version.descriptor.valid());
  const Message id = receive(socket);
  EXPECT_EQ(id.value, kCardPeer);
  EXPECT_FALSE(id.descriptor.valid());
  const Message memory = receive(socket);
  EXPECT_EQ(memory.value, -1);
  EXPECT_EQ(inode(memory.descriptor.get()), inode(handle->window_fd()));
  const Message host = receive(socket);
  EXPECT_EQ(host.value, kHostPeer);
  EXPECT_EQ(inode(host.descriptor.get()), inode(handle->doorbell_from_card()));
  EXPECT_FALSE(slot_->handshake_read());
  const Message card = receive(socket);
  EXPECT_EQ(card.value, kCardPeer);
  EXPECT_EQ(inode(card.descriptor.get()), inode(handle->doorbell_to_card()));
  EXPECT_TRUE(slot_->handshake_read());
}

TEST_F(SlotTest, WindowCanNeitherShrinkNorGrowNorBeSealedFurther) {
  const auto handle = slot_->handle();
  ASSERT_TRUE(handle);
  EXPECT_EQ(handle->window_bytes(), kMiB);
  EXPECT_EQ(::ftruncate(handle->window_fd(), 0), -1);
  EXPECT_EQ(::ftruncate(handle->window_fd(), 2 * kMiB), -1);
  EXPECT_EQ(::fcntl(handle->window_fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  void* mapping = ::mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, handle->window_fd(), 0);
  ASSERT_NE(mapping, MAP_FAILED);
  ::munmap(mapping, kMiB);
}

TEST_F(SlotTest, AFloodedDoorbellIsPendingNotBlocking) {
  const auto handle = slot_->handle();
  ASSERT_TRUE(handle);
  const char ring[svp::kDoorbellBytes] = {};
  int rings = 0;
  while (::write(handle->doorbell_to_card(), ring, sizeof ring) == ssize_t(sizeof ring)) ++rings;
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_GT(rings, 0);
}

TEST_F(SlotTest, ATenantCanNotMakeTheCardsEndBlocking) {
  const auto handle = slot_->handle();
  ASSERT_TRUE(handle);
  const std::vector<Message> messages = receive_handshake(slot_->emulator_end());
  const int written_by_card = messages[3].descriptor.get();
  const int read_by_card = messages[4].descriptor.get();
  ASSERT_EQ(::fcntl(handle->doorbell_to_card(), F_SETFL, 0), 0);
  ASSERT_EQ(::fcntl(handle->doorbell_from_card(), F_SETFL, 0), 0);
  EXPECT_TRUE(::fcntl(written_by_card, F_GETFL) & O_NONBLOCK);
  EXPECT_TRUE(::fcntl(read_by_card, F_GETFL) & O_NONBLOCK);
}

TEST_F(SlotTest, DoorbellsOutliveTheTenant) {
  const std::vector<Message> messages = receive_handshake(slot_->emulator_end());
  {
    const auto handle = slot_->handle();
  }
  char byte;
  // bounded: the pipe does not block
  EXPECT_EQ(::read(messages[4].descriptor.get(), &byte, 1), -1);  // 0 would be the end that makes QEMU spin
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(::write(messages[3].descriptor.get(), &byte, 1), 1);  // EPIPE without a reader
}

TEST_F(SlotTest, HandlesAreCloseOnExecAndTheTenantsOwn) {
  auto handle = slot_->handle();
  ASSERT_TRUE(handle);
  for (const int fd : {handle->window_fd(), handle->doorbell_to_card(), handle->doorbell_from_card()}) {
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
  slot_.reset();
  EXPECT_GE(::fcntl(handle->window_fd(), F_GETFD), 0);
  const svp::SlotHandle moved{std::move(*handle)};
  EXPECT_EQ(handle->window_fd(), -1);
  EXPECT_EQ(moved.index(), 5U);
}

TEST_F(SlotTest, APeerIsAnnouncedWithAPipeOfItsOwnAndEndsWithOneMessage) {
  (void)receive_handshake(slot_->emulator_end());
  const auto peer = slot_->connect_peer(2);
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->slot, 5U);
  EXPECT_EQ(peer->id, 2);
  EXPECT_FALSE(slot_->handshake_read());
  const Message announced = receive(slot_->emulator_end());
  EXPECT_EQ(announced.value, 2);
  EXPECT_EQ(inode(announced.descriptor.get()), inode(peer->from_card.get()));
  EXPECT_NE(inode(peer->from_card.get()), inode(slot_->handle()->doorbell_from_card()));
  ASSERT_TRUE(slot_->disconnect_peer(2));
  const Message ended = receive(slot_->emulator_end());
  EXPECT_EQ(ended.value, 2);
  EXPECT_FALSE(ended.descriptor.valid());
  EXPECT_TRUE(slot_->handshake_read());
}

TEST_F(SlotTest, APeersEndOfThePipeToTheCardIsAFileDescriptionOfItsOwn) {
  const auto former = slot_->connect_peer(2);
  const auto next = slot_->connect_peer(3);
  ASSERT_TRUE(former && next);
  EXPECT_EQ(inode(former->to_card.get()), inode(slot_->handle()->doorbell_to_card()));
  EXPECT_EQ(inode(next->to_card.get()), inode(former->to_card.get()));
  ASSERT_EQ(::fcntl(former->to_card.get(), F_SETFL, 0), 0);
  EXPECT_TRUE(::fcntl(next->to_card.get(), F_GETFL) & O_NONBLOCK);
  EXPECT_TRUE(::fcntl(slot_->handle()->doorbell_to_card(), F_GETFL) & O_NONBLOCK);
  for (const int fd : {next->to_card.get(), next->from_card.get()}) EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

TEST(Slot, ManySlotsLeaveNothingBehind) {
  const auto before = svp::test::count_resources_without_threads();
  {
    std::vector<Slot> slots;
    slots.reserve(64);
    for (unsigned i = 0; i < 64; ++i) slots.push_back(std::move(*Slot::create(i, {})));
  }
  EXPECT_EQ(svp::test::count_resources_without_threads(), before);
}

}  // namespace
}  // namespace qemu
