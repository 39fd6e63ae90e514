// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/peer_process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "host_driver/discovery/local_socket.hpp"
#include "tests/bounds.hpp"
#include "tests/support/process_end.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

bool readable(int fd, int ms) {
  pollfd event{fd, POLLIN, 0};
  return ::poll(&event, 1, ms) == 1;
}

class Peers : public testing::Test {
 protected:
  void SetUp() override {
    folder_.reset(::open(temporary_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto listening = listen_in(folder_.get(), kSocketName);
    ASSERT_TRUE(listening) << describe(listening.error());
    listener_ = *std::move(listening);
  }
  void TearDown() override {
    if (grandchild_ > 0) svp::test::send_signal(grandchild_, SIGKILL);
  }

  // A process that connects, and ends when `go` is closed; with `fork`, a child of it keeps the socket.
  void connect_from_another(bool fork) {
    int go[2], told[2];
    ASSERT_EQ(::pipe2(go, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(told, O_CLOEXEC), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::close(go[1]);
      const auto socket = connect_in(folder_.get(), kSocketName, test_bounds::kConnection);
      pid_t holder = 0;
      if (fork && (holder = ::fork()) == 0) {
        for (;;) ::pause();  // bounded: the test kills it, or its death signal does
      }
      if (::write(told[1], &holder, sizeof holder) != sizeof holder) ::_exit(1);
      char byte;
      if (::read(go[0], &byte, 1) != 0) ::_exit(1);  // bounded: the test closes the pipe, or ends and it closes
      ::_exit(socket ? 0 : 1);
    }
    ::close(go[0]);
    ::close(told[1]);
    go_.reset(go[1]);
    // bounded: the child writes after connect_in(), which is bounded
    ASSERT_EQ(::read(told[0], &grandchild_, sizeof grandchild_), static_cast<ssize_t>(sizeof grandchild_));
    ::close(told[0]);
    socket_.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));  // bounded: the listener does not block
    ASSERT_TRUE(socket_.valid());
  }
  void end_child() {
    go_.reset();
    int status = -1;
    ASSERT_EQ(::waitpid(child_, &status, 0), child_);  // bounded: its pipe was closed, upon which it leaves
    EXPECT_EQ(status, 0);
  }

  qemu::test::TemporaryFolder temporary_;
  UniqueFd folder_, listener_, socket_, go_;
  pid_t child_ = -1;
  pid_t grandchild_ = 0;
};

TEST_F(Peers, PeerIsTheProcessThatConnected) {
  connect_from_another(false);
  const auto peer = identify_peer(socket_.get());
  ASSERT_TRUE(peer) << describe(peer.error());
  EXPECT_EQ(peer->pid, child_);
  EXPECT_EQ(peer->uid, ::geteuid());
  EXPECT_FALSE(readable(peer->pidfd.get(), 0));
  end_child();
  EXPECT_TRUE(readable(peer->pidfd.get(), 5000));
}

TEST_F(Peers, EndOfThePeerIsSeenThoughItsChildHoldsTheSocket) {
  connect_from_another(true);
  const auto peer = identify_peer(socket_.get());
  ASSERT_TRUE(peer) << describe(peer.error());
  end_child();
  EXPECT_TRUE(readable(peer->pidfd.get(), 5000));
  EXPECT_FALSE(readable(socket_.get(), 0)) << "the child holds it";
}

TEST_F(Peers, ByNumberAPeerIsNotTrustedWithoutAProof) {
  connect_from_another(false);
  const auto peer = identify_peer_by_number(socket_.get());
  ASSERT_TRUE(peer) << describe(peer.error());
  EXPECT_TRUE(peer->needs_proof);
  EXPECT_TRUE(peer->alive());
  end_child();
  EXPECT_TRUE(readable(peer->pidfd.get(), 5000));
  EXPECT_FALSE(peer->alive());
}

// A client does not wait for the broker: its request may come between the accept and whatever the broker does then.
TEST_F(Peers, TheSenderOfARequestBehindTheAcceptIsKnown) {
  const auto client = connect_in(folder_.get(), kSocketName, test_bounds::kConnection);
  ASSERT_TRUE(client) << client.error().reason;
  const UniqueFd accepted(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));  // bounded: it has connected
  ASSERT_TRUE(accepted.valid());
  ASSERT_TRUE(send_message(client->get(), "request"));
  const auto peer = identify_peer_by_number(accepted.get());
  ASSERT_TRUE(peer) << describe(peer.error());
  const Received received = receive_message(accepted.get(), 16, 0);
  EXPECT_EQ(received.text, "request");
  EXPECT_EQ(received.sender, peer->pid);
}

// The kernel says who sent a message, whoever holds the socket: a child that inherited it is not the peer.
TEST_F(Peers, TheSenderOfAProofIsTheProcessThatSentIt) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd ours{ends[0]}, theirs{ends[1]};
  ASSERT_TRUE(ask_for_senders(ours.get()));
  ASSERT_TRUE(send_message(theirs.get(), "proof"));
  EXPECT_EQ(receive_message(ours.get(), 64, 0).sender, ::getpid());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(send_message(theirs.get(), "proof") ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);  // bounded: it sends one message, without waiting, and leaves
  ASSERT_EQ(status, 0);
  EXPECT_EQ(receive_message(ours.get(), 64, 0).sender, child);
}

}  // namespace
}  // namespace svp
