import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.Map;
import javax.servlet.http.HttpServlet;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/**
 * A shop by servlets in an embedded Jetty, with a pool of so many threads. Each page checks the visitor's token and
 * renders a list; it waits for nothing. Both pages cost the same, about 4 ms of a processor.
 *
 *   java -cp JETTY Shop.java ADDRESS PORT THREADS
 */
public class Shop extends HttpServlet {
  private static final Map<String, String> TITLES = Map.of("/checkout", "Your basket", "/browse", "Our range");
  /** Pages rendered before the first request: a JVM is slow until it has compiled what it runs often. */
  private static final long WARMING_MS = 2000;

  @Override
  protected void doGet(HttpServletRequest request, HttpServletResponse response) throws java.io.IOException {
    String path = request.getServletPath();
    byte[] body = page(path, TITLES.get(path)).getBytes(StandardCharsets.UTF_8);
    response.setContentType("text/html; charset=utf-8");
    response.setContentLength(body.length);
    response.getOutputStream().write(body);
  }

  private static String page(String path, String title) {
    StringBuilder page = new StringBuilder("<!doctype html><title>").append(title).append("</title><ul>\n");
    for (int number = 0; number < 300; number++) {
      page.append("<li><a href=\"/item/").append(number).append("\">")
          .append(escape("Tea & biscuits no. " + number)).append("</a>: ")
          .append(number * 7 % 90 + 9).append(" EUR</li>\n");
    }
    return page.append("</ul><p>").append(token(path)).append("</p>\n").toString();
  }

  private static String escape(String text) {
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
  }

  /** What a session's token is checked against: a hash of a hash, many times. */
  private static String token(String path) {
    try {
      MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
      byte[] sum = path.getBytes(StandardCharsets.UTF_8);
      for (int round = 0; round < 12000; round++) {
        sum = sha256.digest(sum);
      }
      return HexFormat.of().formatHex(sum);
    } catch (java.security.NoSuchAlgorithmException impossible) {
      throw new IllegalStateException("every Java has SHA-256", impossible);
    }
  }

  public static void main(String[] words) throws Exception {
    long begun = System.currentTimeMillis();
    while (System.currentTimeMillis() - begun < WARMING_MS) {
      page("/browse", "Our range");
    }
    Server server = new Server(new QueuedThreadPool(Integer.parseInt(words[2])));
    // One acceptor and one selector, as Jetty itself chooses on one processor.
    ServerConnector connector = new ServerConnector(server, 1, 1);
    connector.setHost(words[0]);
    connector.setPort(Integer.parseInt(words[1]));
    server.addConnector(connector);
    ServletContextHandler handler = new ServletContextHandler();
    ServletHolder shop = new ServletHolder(new Shop());
    TITLES.keySet().forEach(path -> handler.addServlet(shop, path));
    server.setHandler(handler);
    server.start();
    server.join();
  }
}
