// The bodies of Asio's and Beast's non-template functions: compiled once, here.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
