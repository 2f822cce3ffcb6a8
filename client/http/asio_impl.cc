// The bodies of Asio's and Beast's non-template functions: compiled once, here.
//
// Without their assertions: Beast's parser has one that bytes from outside can break (a last chunk
// without any before it whose end comes in pieces) where all that follows is right, and no request
// may end the process.
#define BOOST_DISABLE_ASSERTS
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/assert.hpp>
#include <boost/beast/src.hpp>
